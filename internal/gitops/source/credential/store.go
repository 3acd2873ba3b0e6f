package credential

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/internal/gitops/source/address"
	"slipway.dev/slipway/internal/gitops/source/signature"
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
	keyring     *signature.Keyring
	// refused are the Secrets that cannot be used, sorted by name.
	refused []RefusedSecret
}

// entry is a credential with its parsed address, so that a lookup parses one
// address only.
type entry struct {
	name       types.NamespacedName
	credential Credential
	address    address.Address
}

// serves reports whether the credential is for a project.
func (e *entry) serves(project string) bool {
	return e.credential.Project == "" || e.credential.Project == project
}

// Set adds a credential, or replaces the one of this name. Those for writing
// are left out.
func (b *Store) Set(name types.NamespacedName, c Credential) {
	parsed, err := address.ParseForeign(c.URL)
	if err != nil || (c.Scope != Repository && c.Scope != Prefix) {
		b.Remove(name)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.entries == nil {
		b.entries = map[types.NamespacedName]entry{}
	}
	b.entries[name] = entry{name: name, credential: c, address: parsed}
	b.sort()
}

// Remove forgets a credential.
func (b *Store) Remove(name types.NamespacedName) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.entries, name)
	b.sort()
}

// sort makes the choice among equals the same every time: those of a project
// first, because they go before those for all.
func (b *Store) sort() {
	b.order = slices.SortedFunc(maps.Keys(b.entries), func(x, y types.NamespacedName) int {
		one, other := b.entries[x].credential.Project != "", b.entries[y].credential.Project != ""
		if one != other {
			if one {
				return -1
			}
			return 1
		}
		return strings.Compare(x.String(), y.String())
	})
}

// For finds the credential that opens an address for a project. A Secret with a
// project serves that one only, and goes before one for all. The Secret of
// exactly this repository wins; where it has nothing to log in with, that comes
// from the longest prefix that matches, as in Argo CD. Without either it is
// false.
func (b *Store) For(wanted address.Address, project string) (Credential, bool) {
	if wanted.IsZero() {
		return Credential{}, false
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	exact, hasExact := b.exact(wanted, project)
	if hasExact && exact.credential.HasIdentity() {
		return identified(exact, entry{}), true
	}
	prefix, hasPrefix := b.longest(wanted, project)
	switch {
	case !hasExact && !hasPrefix:
		return Credential{}, false
	case !hasExact:
		return identified(entry{}, prefix), true
	}
	return identified(exact, prefix), true
}

// Named is the address of a Helm repository that a Secret gives a name, for a
// project; empty if there is none. Charts name it as @name, as they name one of
// "helm repo add".
func (b *Store) Named(name, project string) string {
	b.mu.RLock()
	defer b.mu.RUnlock()
	for _, key := range b.order {
		if e := b.entries[key]; e.credential.Name == name && e.credential.Kind == Helm && e.credential.Scope == Repository && e.serves(project) {
			return e.credential.URL
		}
	}
	return ""
}

// identified merges the Secret of a repository with that of a prefix. Either can
// be missing.
func identified(exact, prefix entry) Credential {
	merged := exact.credential
	switch {
	case exact.address.IsZero():
		merged = prefix.credential
	case !prefix.address.IsZero():
		merged = merged.with(prefix.credential)
	}
	merged.Identity = Identity{
		Project:    cmp.Or(exact.credential.Project, prefix.credential.Project),
		Repository: exact.name, Prefix: prefix.name,
	}
	return merged
}

// exact returns the credential of exactly this repository. The order of sort
// decides among several. The caller holds mu.
func (b *Store) exact(wanted address.Address, project string) (entry, bool) {
	for _, name := range b.order {
		if p := b.entries[name]; p.credential.Scope == Repository && p.serves(project) && same(p.address, wanted) {
			return p, true
		}
	}
	return entry{}, false
}

// longest returns the credential with the longest matching prefix. The caller
// holds mu.
func (b *Store) longest(wanted address.Address, project string) (entry, bool) {
	var best entry
	found := false
	for _, name := range b.order {
		p := b.entries[name]
		if p.credential.Scope != Prefix || !p.serves(project) || !covers(p.address, wanted) {
			continue
		}
		// Of equally long prefixes the first one in the order wins.
		if !found || len(p.address.Path) > len(best.address.Path) {
			best, found = p, true
		}
	}
	return best, found
}

// with takes what is missing from the credential of a prefix.
func (c Credential) with(prefix Credential) Credential {
	c.Username, c.Password, c.BearerToken = prefix.Username, prefix.Password, prefix.BearerToken
	c.App = prefix.App
	c.SSHPrivateKey, c.ClientCertificate, c.ClientKey = prefix.SSHPrivateKey, prefix.ClientCertificate, prefix.ClientKey
	c.ForceHTTPBasicAuth = c.ForceHTTPBasicAuth || prefix.ForceHTTPBasicAuth
	c.EnableOCI = c.EnableOCI || prefix.EnableOCI
	c.EnableLFS = c.EnableLFS || prefix.EnableLFS
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

// Keyring has the keys that sign commits; nil before any were read.
func (b *Store) Keyring() *signature.Keyring {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.keyring
}

// SetConfigMap takes one of the three ConfigMaps, and nothing from others. A key that
// cannot be read signs nothing.
func (b *Store) SetConfigMap(m *corev1.ConfigMap) {
	switch m.Name {
	case KnownHostsConfigMap:
		b.SetKnownHosts([]byte(m.Data[KnownHostsKey]))
	case AuthoritiesConfigMap:
		b.SetCertificateAuthorities(m.Data)
	case signature.ConfigMap:
		keyring, _ := signature.Read(m.Data)
		b.mu.Lock()
		defer b.mu.Unlock()
		b.keyring = keyring
	}
}
