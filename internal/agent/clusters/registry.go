package clusters

import (
	"cmp"
	"log/slog"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/internal/gitops/project"
	"slipway.dev/slipway/internal/gitops/source/credential"
	"slipway.dev/slipway/internal/observe"
)

// Registry has the clusters that the Secrets of the control namespace describe.
// It is safe for concurrent use.
type Registry struct {
	log *slog.Logger

	mu    sync.Mutex
	specs []*ClusterSpec
	// known is set as soon as the Secrets were read once.
	known bool
	// local is the Secret about the own cluster, which only gives it labels;
	// nil if there is none.
	local *ClusterSpec
	// refused are the Secrets that cannot be used.
	refused []refusedSecret
	// logged are the versions of refused Secrets that were logged, by UID.
	logged map[types.UID]string
	// changed is closed and replaced on every update.
	changed chan struct{}
}

// NewRegistry returns an empty Registry.
func NewRegistry(log *slog.Logger) *Registry {
	return &Registry{log: log, logged: map[types.UID]string{}, changed: make(chan struct{})}
}

// Update replaces the clusters by those of all given Secrets; Secrets of other
// types are skipped. A Secret that cannot be used is recorded as refused. Of
// two Secrets with the same address or name the older one counts, so that a new
// one cannot take over a cluster.
func (b *Registry) Update(secrets []*corev1.Secret) {
	mine := slices.DeleteFunc(slices.Clone(secrets), func(one *corev1.Secret) bool {
		return one.Labels[credential.TypeLabel] != TypeCluster
	})
	// The oldest first, and by name among equals, so that every replica accepts
	// the same ones.
	slices.SortFunc(mine, func(x, y *corev1.Secret) int {
		return cmp.Or(x.CreationTimestamp.Compare(y.CreationTimestamp.Time), cmp.Compare(x.Name, y.Name))
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	b.specs, b.local, b.refused, b.known = nil, nil, nil, true
	// names has the accepted addresses and names, each with its Secret.
	names := map[string]string{}
	for _, one := range mine {
		entry, err := Parse(one)
		if err != nil {
			b.recordRefusal(one, err.Error())
			continue
		}
		if entry.Server == project.LocalServer {
			b.local = entry
			continue
		}
		if first, taken := names[entry.Server]; taken {
			b.recordRefusal(one, "the Secret "+first+" has the same address")
			continue
		}
		if first, taken := names[entry.Name]; taken {
			b.recordRefusal(one, "the Secret "+first+" has the same name")
			continue
		}
		names[entry.Server], names[entry.Name] = one.Name, one.Name
		b.specs = append(b.specs, entry)
	}
	// Wakes the Fleet, which compares the clusters with its connections.
	close(b.changed)
	b.changed = make(chan struct{})
}

// recordRefusal keeps why a Secret is refused, and logs it once for each
// version. The lock must be held.
func (b *Registry) recordRefusal(about *corev1.Secret, problem string) {
	b.refused = append(b.refused, refuse(about.Namespace, about.Name, string(about.Data["server"]), string(about.Data["name"]), problem))
	if b.logged[about.UID] == about.ResourceVersion {
		return
	}
	b.logged[about.UID] = about.ResourceVersion
	b.log.Error("refused Secret of cluster", "secret", about.Namespace+"/"+about.Name, observe.KeyError, problem)
}

// read returns the clusters, and a channel that is closed when they change.
func (b *Registry) read() ([]*ClusterSpec, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.specs), b.changed
}

// Servers returns the addresses of the clusters by name; false before the
// Secrets were read once.
func (b *Registry) Servers() (map[string]string, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	servers := make(map[string]string, len(b.specs))
	for _, one := range b.specs {
		servers[one.Name] = one.Server
	}
	return servers, b.known
}

// find returns the cluster with a name or an address; nil if there is none.
func (b *Registry) find(name, server string) *ClusterSpec {
	entries, _ := b.read()
	for _, one := range entries {
		if name != "" && one.Name == name || server != "" && one.Server == server {
			return one
		}
	}
	return nil
}
