package credential

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The names of the ConfigMaps of known hosts and certificate authorities, and
// the key of the first. The keys of the other are hosts.
const (
	KnownHostsConfigMap  = "argocd-ssh-known-hosts-cm"
	KnownHostsKey        = "ssh_known_hosts"
	AuthoritiesConfigMap = "argocd-tls-certs-cm"
)

// Store is all credentials of a cluster. Its zero value is empty and ready. It
// is safe for concurrent use.
type Store struct {
	mu          sync.RWMutex
	entries     map[types.NamespacedName]entry
	order       []types.NamespacedName
	knownHosts  []byte
	authorities map[string][]byte
	// refused are the Secrets that cannot be used, sorted by name.
	refused []RefusedSecret
}

// entry is a credential with its parsed address, so that a lookup parses one
// address only.
type entry struct {
	credential Credential
	address    address
}

// Set adds a credential, or replaces the one of this name. Those for writing
// are left out.
func (b *Store) Set(name types.NamespacedName, c Credential) {
	parsed, err := parseAddress(c.URL)
	if err != nil || (c.Scope != Repository && c.Scope != Prefix) {
		b.Remove(name)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.entries == nil {
		b.entries = map[types.NamespacedName]entry{}
	}
	b.entries[name] = entry{credential: c, address: parsed}
	b.sort()
}

// Remove forgets a credential.
func (b *Store) Remove(name types.NamespacedName) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.entries, name)
	b.sort()
}

// sort makes the choice among equals the same every time: those without a
// project first, for they are for everyone.
func (b *Store) sort() {
	b.order = slices.SortedFunc(maps.Keys(b.entries), func(x, y types.NamespacedName) int {
		one, other := b.entries[x].credential.Project == "", b.entries[y].credential.Project == ""
		if one != other {
			if one {
				return -1
			}
			return 1
		}
		return strings.Compare(x.String(), y.String())
	})
}

// For finds the credential for an address. The one of exactly this repository
// wins; where it has nothing to log in with, that comes from the longest prefix
// that matches, as in Argo CD. Without either it is false.
func (b *Store) For(url string) (Credential, bool) {
	wanted, err := parseAddress(url)
	if err != nil {
		return Credential{}, false
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	exact, hasExact := b.exact(wanted)
	if hasExact && exact.HasIdentity() {
		return exact, true
	}
	prefix, hasPrefix := b.longest(wanted)
	if !hasExact {
		return prefix, hasPrefix
	}
	if hasPrefix {
		exact = exact.with(prefix)
	}
	return exact, true
}

// exact returns the credential of exactly this repository. The order of sort
// decides among several. The caller holds mu.
func (b *Store) exact(wanted address) (Credential, bool) {
	for _, name := range b.order {
		if p := b.entries[name]; p.credential.Scope == Repository && p.address.same(wanted) {
			return p.credential, true
		}
	}
	return Credential{}, false
}

// longest returns the credential with the longest matching prefix. The caller
// holds mu.
func (b *Store) longest(wanted address) (Credential, bool) {
	var best entry
	found := false
	for _, name := range b.order {
		p := b.entries[name]
		if p.credential.Scope != Prefix || !p.address.covers(wanted) {
			continue
		}
		// Of equally long prefixes the first one in the order wins.
		if !found || len(p.address.path) > len(best.address.path) {
			best, found = p, true
		}
	}
	return best.credential, found
}

// with takes what is missing from the credential of a prefix.
func (c Credential) with(prefix Credential) Credential {
	c.Username, c.Password, c.BearerToken = prefix.Username, prefix.Password, prefix.BearerToken
	c.SSHPrivateKey, c.ClientCertificate, c.ClientKey = prefix.SSHPrivateKey, prefix.ClientCertificate, prefix.ClientKey
	c.ForceHTTPBasicAuth = c.ForceHTTPBasicAuth || prefix.ForceHTTPBasicAuth
	c.EnableOCI = c.EnableOCI || prefix.EnableOCI
	if c.Proxy.IsZero() {
		c.Proxy, c.NoProxy = prefix.Proxy, prefix.NoProxy
	}
	return c
}

// SetKnownHosts replaces the known hosts, in the form of a known_hosts file.
func (b *Store) SetKnownHosts(lines []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.knownHosts = bytes.Clone(lines)
}

// KnownHosts is the lines of all hosts whose keys are known.
func (b *Store) KnownHosts() []byte {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return bytes.Clone(b.knownHosts)
}

// SetCertificateAuthorities replaces the certificates that hosts are trusted
// by, as PEM text by host.
func (b *Store) SetCertificateAuthorities(byHost map[string]string) {
	authorities := make(map[string][]byte, len(byHost))
	for host, text := range byHost {
		authorities[strings.ToLower(host)] = []byte(text)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.authorities = authorities
}

// CertificateAuthorities is the PEM text of what a host is trusted by, or
// nothing where the usual ones are to be used. The host may have a port; then
// text for the host with the port wins.
func (b *Store) CertificateAuthorities(host string) []byte {
	host = strings.ToLower(host)
	b.mu.RLock()
	defer b.mu.RUnlock()
	if text, found := b.authorities[host]; found {
		return bytes.Clone(text)
	}
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
		host = host[:i]
	}
	return bytes.Clone(b.authorities[strings.Trim(host, "[]")])
}

// SetConfigMap takes one of the two ConfigMaps, and nothing from others.
func (b *Store) SetConfigMap(m *corev1.ConfigMap) {
	switch m.Name {
	case KnownHostsConfigMap:
		b.SetKnownHosts([]byte(m.Data[KnownHostsKey]))
	case AuthoritiesConfigMap:
		b.SetCertificateAuthorities(m.Data)
	}
}
