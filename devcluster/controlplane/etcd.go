package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/embed"
)

// startEtcd runs a single member. Clients reach it on a free loopback port
// with a certificate of etcd's own authority; there is no peer listener,
// because there is no peer.
func (c *Cluster) startEtcd(ctx context.Context, dir string) (string, error) {
	cfg := embed.NewConfig()
	cfg.Name = "slipway"
	cfg.Dir = dir
	client := url.URL{Scheme: "https", Host: "127.0.0.1:0"}
	cfg.ListenClientUrls = []url.URL{client}
	cfg.AdvertiseClientUrls = []url.URL{client}
	cfg.ListenPeerUrls = nil
	cfg.AdvertisePeerUrls = []url.URL{{Scheme: "https", Host: "127.0.0.1:2380"}}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	cfg.ClientTLSInfo = transport.TLSInfo{
		CertFile:       c.Credentials.etcdServer.CertFile,
		KeyFile:        c.Credentials.etcdServer.KeyFile,
		ClientCertFile: c.Credentials.etcdClient.CertFile,
		ClientKeyFile:  c.Credentials.etcdClient.KeyFile,
		TrustedCAFile:  c.Credentials.etcd.File(),
		ClientCertAuth: true,
	}
	// Raft keeps entries in memory until a snapshot: one member needs few.
	cfg.SnapshotCount = 2000
	cfg.SnapshotCatchUpEntries = 500
	cfg.EnableGRPCGateway = false
	cfg.LogLevel = "warn"
	cfg.LogOutputs = []string{dir + ".log"}

	server, err := embed.StartEtcd(cfg)
	if err != nil {
		return "", err
	}
	c.run("etcd", func(ctx context.Context) error {
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
	return "https://" + server.Clients[0].Addr().String(), nil
}
