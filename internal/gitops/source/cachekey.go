package source

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"slipway.dev/slipway/internal/gitops/project"
	"slipway.dev/slipway/internal/gitops/source/address"
	"slipway.dev/slipway/internal/gitops/source/credential"
	"slipway.dev/slipway/internal/gitops/source/remote"
)

// cacheKey is what is kept apart in memory and on the disk: an address, and the
// credential that opened it. What the credential of one project has read is
// never served to another one, not even by the id of a commit or the digest of
// an archive.
type cacheKey struct {
	address    address.Address
	credential credential.Identity
}

// keyOf is the key of a source, with the credential that is chosen for it now.
func (s *Sources) keyOf(of project.Admitted) cacheKey {
	found, _ := s.options.Credentials.For(of.Address(), of.Project())
	return cacheKey{address: of.Address(), credential: found.Identity}
}

// folder is the name of what is on the disk for a key.
func (k cacheKey) folder() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", []string{
		k.address.String(), k.credential.Project, k.credential.Repository.String(), k.credential.Prefix.String(),
	}))
	return hex.EncodeToString(sum[:16])
}

// access is what opens the address of a key now, at a host. It fails after the
// Secrets changed so that another credential is chosen: what that one opens
// belongs to another key.
func (s *Sources) access(ctx context.Context, key cacheKey, host string) (remote.Access, error) {
	found, _ := s.options.Credentials.For(key.address, key.credential.Project)
	if found.Identity != key.credential {
		return remote.Access{}, errorf(Unreachable, "", "its credentials have changed: it is read again with the new ones")
	}
	return s.withAppToken(ctx, remote.Access{
		Credential: found, KnownHosts: s.options.Credentials.KnownHosts(),
		Authorities: s.options.Credentials.CertificateAuthorities(host), Outbound: s.options.Outbound,
	})
}
