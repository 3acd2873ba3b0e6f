package documents

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/test/kubelet"
)

// cloudTick is how often the cloud looks at the cluster. Each look lists three kinds.
const cloudTick = 500 * time.Millisecond

// node does what a kubelet and a cloud do. Pods with our image are processes with a
// root of their own. Pods of others are ready, and nothing runs.
type node struct {
	*kubelet.Node
	w *world
	// untrusting leaves the authority of the hosts out of the image.
	untrusting atomic.Bool
}

// startNode runs the node until the test ends.
func startNode(t *testing.T, w *world) *node {
	t.Helper()
	n := &node{w: w}
	n.Node = kubelet.Start(t, w.cluster, n.options(t))
	ctx, stop := context.WithCancel(context.Background())
	programs.Background(t, func() {
		ticks := time.NewTicker(cloudTick)
		defer ticks.Stop()
		var last error
		for ctx.Err() == nil {
			if err := n.beCloud(ctx); ctx.Err() == nil {
				last = err
			}
			select {
			case <-ctx.Done():
			case <-ticks.C:
			}
		}
		if last != nil {
			t.Logf("the cloud: %v", last)
		}
	}, stop)
	return n
}

// options are those of every node: the image is ours, and has the authority of the
// hosts.
func (n *node) options(t *testing.T) kubelet.Options {
	t.Helper()
	hosts := must.Get(os.ReadFile(n.w.hosts))(t)
	return kubelet.Options{
		Name: "worker", Program: n.w.binary, Pretend: true, Hosts: string(hosts),
		Image: func(image string) bool {
			return strings.Contains(image, "slipway:") || strings.Contains(image, "slipway@")
		},
		Trusted: func() []byte {
			if n.untrusting.Load() {
				return nil
			}
			return n.w.authority.Cert
		},
	}
}

// patch writes a status.
func (n *node) patch(_ context.Context, send func(body []byte) error, status any) error {
	body, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		return err
	}
	if err := send(body); !apierrors.IsNotFound(err) {
		return err
	}
	return nil // it is gone
}
