// Package envtest runs `kubegc controller run` beside the API server of a test, which has no garbage collection of its own.
package envtest

import (
	"encoding/json"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// Config has the fields of client-go's rest.Config that say how to reach the API server.
type Config struct {
	Host, BearerToken         string
	CAData, CertData, KeyData []byte
}

// Start starts kubegc with these arguments more, such as --namespaces, waits until it collects, and stops it with the test.
// The program is kubegc in KUBEBUILDER_ASSETS, else in PATH.
func Start(t testing.TB, config Config, args ...string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	address := listener.Addr().String()
	must(t, listener.Close())
	path := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, os.WriteFile(path, kubeconfig(config), 0o600))
	args = append([]string{"controller", "run", "--kubeconfig", path, "--set", "controller.address=" + address}, args...)
	kubegc := exec.Command(program(), args...)
	kubegc.Stderr = os.Stderr
	must(t, kubegc.Start())
	ended := make(chan error, 1)
	go func() { ended <- kubegc.Wait() }()
	t.Cleanup(func() {
		_ = kubegc.Process.Signal(syscall.SIGTERM)
		<-ended
	})
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		answer, err := http.Get("http://" + address + "/readyz")
		if err == nil && answer.Body.Close() == nil && answer.StatusCode == http.StatusOK {
			return
		}
		if len(ended) > 0 || time.Now().After(deadline) {
			t.Fatalf("kubegc is not ready: %v", err)
		}
	}
}

func program() string {
	path := filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubegc")
	if _, err := os.Stat(path); err != nil || !filepath.IsAbs(path) {
		return "kubegc"
	}
	return path
}

// kubeconfig returns a kubeconfig, as JSON, which is YAML.
func kubeconfig(config Config) []byte {
	cluster := map[string]any{"server": config.Host, "certificate-authority-data": config.CAData}
	user := map[string]any{"client-certificate-data": config.CertData, "client-key-data": config.KeyData, "token": config.BearerToken}
	// Texts, bytes and maps of them always have a form as JSON.
	text, _ := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "envtest",
		"clusters": []any{map[string]any{"name": "envtest", "cluster": cluster}},
		"users":    []any{map[string]any{"name": "envtest", "user": user}},
		"contexts": []any{map[string]any{"name": "envtest", "context": map[string]string{"cluster": "envtest", "user": "envtest"}}},
	})
	return text
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
