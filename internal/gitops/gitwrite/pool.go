package gitwrite

import (
	"sync"
	"time"

	"slipway.dev/slipway/internal/gitops/source/remote"
)

// maxOpen bounds the repositories that a Pool keeps open: each has its newest commit on
// the disk.
const maxOpen = 32

// Pool keeps repositories open, so that a commit that did not change is not fetched
// again. One branch has one writer: commits to it take turns. The zero value is empty.
type Pool struct {
	mu    sync.Mutex
	known map[PoolKey]*pooled
}

// PoolKey is a branch of a repository with the credential that opens it.
type PoolKey struct {
	Repository, Branch, Base string
	// Project has the credential, unless a Secret with its version is named.
	Project, Secret string
}

// pooled is a writer and when it was used.
type pooled struct {
	repository *Repository
	access     remote.Access
	used       time.Time
}

// Get returns the writer of a key, which is opened with the options if it is new or its
// credential changed.
func (p *Pool) Get(key PoolKey, options Options) (*Repository, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	one := p.known[key]
	// A credential that was rotated opens the repository again.
	if one == nil || !sameAccess(one.access, options.Access) {
		opened, err := Open(options)
		if err != nil {
			return nil, err
		}
		one = &pooled{repository: opened, access: options.Access}
		if p.known == nil {
			p.known = map[PoolKey]*pooled{}
		}
		p.known[key] = one
	}
	one.used = time.Now()
	p.evict()
	return one.repository, nil
}

// evict forgets the writers that were not used for longest.
func (p *Pool) evict() {
	for len(p.known) > maxOpen {
		var oldest PoolKey
		for key, one := range p.known {
			if found := p.known[oldest]; found == nil || one.used.Before(found.used) {
				oldest = key
			}
		}
		delete(p.known, oldest)
	}
}

// sameAccess reports whether a credential is the one that a writer was opened with.
func sameAccess(x, y remote.Access) bool {
	a, b := x.Credential, y.Credential
	return a.Username == b.Username && a.Password.Reveal() == b.Password.Reveal() && a.BearerToken.Reveal() == b.BearerToken.Reveal() &&
		a.SSHPrivateKey.Reveal() == b.SSHPrivateKey.Reveal() && a.ClientKey.Reveal() == b.ClientKey.Reveal() && a.Proxy.Reveal() == b.Proxy.Reveal() &&
		string(x.Authorities) == string(y.Authorities) && string(x.KnownHosts) == string(y.KnownHosts)
}
