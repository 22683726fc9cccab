module github.com/kubegc/kubegc/packaging/envtest

go 1.19
