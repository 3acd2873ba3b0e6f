package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"

	"go.etcd.io/etcd/server/v3/embed"
)

// startEtcd runs a single member and returns its client URL once it is ready: a
// Unix socket in a directory that only this user may enter. There is no
// listener on the network, for clients or for peers, so there is nothing to
// encrypt, and no certificate to verify on each connection.
func (c *Cluster) startEtcd(ctx context.Context, dir string, unsynced bool) (string, error) {
	socket, folder, err := etcdSocket(dir + ".socket")
	if err != nil {
		return "", err
	}
	cfg := embed.NewConfig()
	cfg.Name = "slipway"
	cfg.Dir = dir
	cfg.ListenClientUrls = []url.URL{socket}
	cfg.ListenPeerUrls = nil
	// Advertised URLs must have the form of a network address, though no client
	// uses them.
	cfg.AdvertiseClientUrls = []url.URL{{Scheme: "http", Host: "127.0.0.1:2379"}}
	cfg.AdvertisePeerUrls = []url.URL{{Scheme: "https", Host: "127.0.0.1:2380"}}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	// Raft keeps entries in memory until a snapshot. They are for followers
	// that lag behind, so a single member needs few.
	cfg.SnapshotCount = 2000
	cfg.SnapshotCatchUpEntries = 500
	cfg.UnsafeNoFsync = unsynced
	cfg.EnableGRPCGateway = false
	// Set explicitly: at zero, every request would be slow enough to be logged.
	cfg.WarningUnaryRequestDuration = embed.DefaultWarningUnaryRequestDuration
	cfg.LogLevel = "warn"
	cfg.LogOutputs = []string{dir + ".log"}

	server, err := embed.StartEtcd(cfg)
	if err != nil {
		return "", errors.Join(err, folder.Close())
	}
	c.run("etcd", func(ctx context.Context) error {
		defer folder.Close() // after the server: the socket's path leads through it
		defer server.Close()
		select {
		case <-ctx.Done():
			return nil
		case err := <-server.Err():
			return err
		case <-server.Server.StopNotify():
			return errors.New("the server stopped")
		}
	})
	select {
	case <-server.Server.ReadyNotify():
	// A member that fails to start reports it through its part.
	case err := <-c.dead:
		return "", err
	case <-ctx.Done():
		return "", fmt.Errorf("not ready: %w", ctx.Err())
	}
	return socket.String(), nil
}

// etcdSocket creates a private directory and returns the URL of a socket in it.
// The path of a Unix socket has room for about a hundred bytes, and the state
// of a cluster may be deeper than that: the URL goes through the descriptor of
// the directory, which must stay open as long as clients connect.
func etcdSocket(path string) (url.URL, *os.File, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return url.URL{}, nil, err
	}
	// MkdirAll keeps the mode of a directory that already exists.
	if err := os.Chmod(path, 0o700); err != nil {
		return url.URL{}, nil, err
	}
	folder, err := os.Open(path)
	if err != nil {
		return url.URL{}, nil, err
	}
	return url.URL{Scheme: "unix", Path: fmt.Sprintf("/proc/self/fd/%d/etcd", folder.Fd())}, folder, nil
}
