package controlplane

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"slipway.dev/slipway/devcluster/must"
)

// etcdIn starts etcd below a folder, and gives a client of it.
func etcdIn(t *testing.T, dir string) (*Cluster, *clientv3.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := &Cluster{dead: make(chan error, 4)}
	t.Cleanup(c.Stop)
	address := must.Get(c.startEtcd(ctx, filepath.Join(dir, "etcd"), true))(t)
	client := must.Get(clientv3.New(clientv3.Config{Endpoints: []string{address}, DialTimeout: time.Minute}))(t)
	return c, client
}

// etcd is reached by a socket that is private, however deep its folder is and
// whatever was left of the process before. What it did not lose is still there,
// and its log is for what is wrong.
func TestEtcdSocket(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("deep/", 40))
	// Another program made the folder, for all to enter.
	must.Do(t, os.MkdirAll(filepath.Join(dir, "etcd.socket"), 0o777))
	first, client := etcdIn(t, dir)
	must.Get(client.Put(t.Context(), "key", "value"))(t)
	if got, err := os.Stat(filepath.Join(dir, "etcd.socket")); err != nil || got.Mode().Perm() != 0o700 {
		t.Errorf("the folder of the socket is %v, %v", got, err)
	}
	client.Close()
	first.Stop()
	// A process that was killed leaves its socket.
	must.Do(t, os.WriteFile(filepath.Join(dir, "etcd.socket", "etcd"), nil, 0o600))
	_, client = etcdIn(t, dir)
	defer client.Close()
	answer, err := client.Get(t.Context(), "key")
	if err != nil || len(answer.Kvs) != 1 || string(answer.Kvs[0].Value) != "value" {
		t.Errorf("after a restart there is %v, %v", answer, err)
	}
	log := must.Get(os.ReadFile(filepath.Join(dir, "etcd.log")))(t)
	if bytes.Contains(log, []byte("request stats")) {
		t.Errorf("requests are logged:\n%.2000s", log)
	}
}
