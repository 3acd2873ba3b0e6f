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

// Book is what the Secrets of the control namespace say about clusters. It is safe
// for concurrent use.
type Book struct {
	log *slog.Logger

	mu      sync.Mutex
	entries []*Entry
	// local is the Secret about the own cluster, if there is one.
	local *Entry
	// refused are the Secrets that cannot be used.
	refused []refusedSecret
	told    map[types.UID]string
	// changed is closed and replaced whenever something changes.
	changed chan struct{}
}

// NewBook makes a Book without entries.
func NewBook(log *slog.Logger) *Book {
	return &Book{log: log, told: map[types.UID]string{}, changed: make(chan struct{})}
}

// Take takes all Secrets of the control namespace; those about something else are
// passed over. One that cannot be used is told in the log, once for each version,
// and is left out. Of two with one address or one name the older one counts.
func (b *Book) Take(secrets []*corev1.Secret) {
	mine := slices.DeleteFunc(slices.Clone(secrets), func(one *corev1.Secret) bool {
		return one.Labels[credential.TypeLabel] != TypeCluster
	})
	slices.SortFunc(mine, func(x, y *corev1.Secret) int {
		return cmp.Or(x.CreationTimestamp.Compare(y.CreationTimestamp.Time), cmp.Compare(x.Name, y.Name))
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	b.entries, b.local, b.refused = nil, nil, nil
	names := map[string]string{}
	for _, one := range mine {
		entry, err := Parse(one)
		if err != nil {
			b.tell(one, err.Error())
			continue
		}
		if entry.Server == project.LocalServer {
			b.local = entry
			continue
		}
		if first, taken := names[entry.Server]; taken {
			b.tell(one, "the Secret "+first+" has the same address")
			continue
		}
		if first, taken := names[entry.Name]; taken {
			b.tell(one, "the Secret "+first+" has the same name")
			continue
		}
		names[entry.Server], names[entry.Name] = one.Name, one.Name
		b.entries = append(b.entries, entry)
	}
	close(b.changed)
	b.changed = make(chan struct{})
}

// tell keeps what is wrong with a Secret, and logs it once for each version.
func (b *Book) tell(about *corev1.Secret, problem string) {
	b.refused = append(b.refused, refuse(about, problem))
	if b.told[about.UID] == about.ResourceVersion {
		return
	}
	b.told[about.UID] = about.ResourceVersion
	b.log.Error("the Secret of a cluster cannot be used", "secret", about.Namespace+"/"+about.Name, observe.KeyError, problem)
}

// read gives the entries, and a channel that is closed when they change.
func (b *Book) read() ([]*Entry, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.entries), b.changed
}

// find is the entry with a name or an address.
func (b *Book) find(name, server string) *Entry {
	entries, _ := b.read()
	for _, one := range entries {
		if name != "" && one.Name == name || server != "" && one.Server == server {
			return one
		}
	}
	return nil
}
