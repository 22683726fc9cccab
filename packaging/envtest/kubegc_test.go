package envtest

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"os"
	"testing"
	"time"
)

// restConfig has the shape of rest.Config, of which Start needs no more.
type restConfig struct {
	Host string
	tlsClientConfig
}

type tlsClientConfig struct{ CAData, CertData, KeyData []byte }

// TestStart runs beside the API server of tests/it/on_node/envtest.rs, which has a ConfigMap without an owner that exists.
func TestStart(t *testing.T) {
	file := func(name string) []byte {
		data, err := os.ReadFile(os.Getenv(name))
		must(t, err)
		return data
	}
	config := restConfig{Host: os.Getenv("HOST"), tlsClientConfig: tlsClientConfig{file("CA"), file("CERT"), file("KEY")}}
	Start(t, Config{Host: config.Host, CAData: config.CAData, CertData: config.CertData, KeyData: config.KeyData}, "--owners-only")

	authorities := x509.NewCertPool()
	authorities.AppendCertsFromPEM(config.CAData)
	certificate, err := tls.X509KeyPair(config.CertData, config.KeyData)
	must(t, err)
	settings := &tls.Config{RootCAs: authorities, Certificates: []tls.Certificate{certificate}}
	api := http.Client{Transport: &http.Transport{TLSClientConfig: settings}}
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		answer, err := api.Get(config.Host + "/api/v1/namespaces/default/configmaps/dangling")
		must(t, err)
		must(t, answer.Body.Close())
		if answer.StatusCode == http.StatusNotFound {
			return
		}
	}
	t.Fatal("the ConfigMap is not collected")
}
