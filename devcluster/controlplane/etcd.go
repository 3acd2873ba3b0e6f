package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"

	"go.etcd.io/etcd/server/v3/embed"
)

// startEtcd runs a single member, and gives the address at which it is reached:
// a socket in a folder that only this user may enter. There is no listener on
// the network, for clients or for peers, so there is nothing to encrypt, and no
// certificate to check with each request.
func (c *Cluster) startEtcd(ctx context.Context, dir string) (string, error) {
	socket, folder, err := etcdSocket(dir + ".socket")
	if err != nil {
		return "", err
	}
	cfg := embed.NewConfig()
	cfg.Name = "slipway"
	cfg.Dir = dir
	cfg.ListenClientUrls = []url.URL{socket}
	cfg.ListenPeerUrls = nil
	// What a member tells others has the form of a network address, though nobody asks.
	cfg.AdvertiseClientUrls = []url.URL{{Scheme: "http", Host: "127.0.0.1:2379"}}
	cfg.AdvertisePeerUrls = []url.URL{{Scheme: "https", Host: "127.0.0.1:2380"}}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	// Raft keeps entries in memory until a snapshot: one member needs few.
	cfg.SnapshotCount = 2000
	cfg.SnapshotCatchUpEntries = 500
	cfg.EnableGRPCGateway = false
	// Without it, every request is slow enough to be logged.
	cfg.WarningUnaryRequestDuration = embed.DefaultWarningUnaryRequestDuration
	cfg.LogLevel = "warn"
	cfg.LogOutputs = []string{dir + ".log"}

	server, err := embed.StartEtcd(cfg)
	if err != nil {
		return "", errors.Join(err, folder.Close())
	}
	c.run("etcd", func(ctx context.Context) error {
		defer folder.Close() // after the server: the address goes by way of it
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
	case err := <-c.dead:
		return "", err
	case <-ctx.Done():
		return "", fmt.Errorf("not ready: %w", ctx.Err())
	}
	return socket.String(), nil
}

// etcdSocket makes a private folder, and gives the address of a socket in it.
// The address of a socket has room for a hundred bytes, and the state of a
// cluster may be deeper than that: it goes by way of the open folder, which must
// stay open as long as anybody connects.
func etcdSocket(path string) (url.URL, *os.File, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return url.URL{}, nil, err
	}
	// It may have been there, with other rights.
	if err := os.Chmod(path, 0o700); err != nil {
		return url.URL{}, nil, err
	}
	folder, err := os.Open(path)
	if err != nil {
		return url.URL{}, nil, err
	}
	return url.URL{Scheme: "unix", Path: fmt.Sprintf("/proc/self/fd/%d/etcd", folder.Fd())}, folder, nil
}
