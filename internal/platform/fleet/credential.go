package fleet

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/platformv1"
)

const (
	// refreshPrefix starts a refresh token, so that scanners for leaked secrets can
	// tell what it is. The runtime's ID and the secret follow.
	refreshPrefix = "slwr_"
	// refreshGrace is how long the refresh token before the last is good, for an
	// answer that was lost.
	refreshGrace = 2 * time.Minute
	// maxRefresh bounds what is looked at.
	maxRefresh = 256
)

// newRefresh makes a refresh token and the hash that is stored.
func newRefresh(runtimeID string) (token string, hash []byte) {
	token = refreshPrefix + runtimeID + "_" + rand.Text()
	return token, refreshHash(token)
}

// refreshHash is what is stored of a refresh token. The token is random, so that a
// plain hash cannot be turned back.
func refreshHash(token string) []byte {
	sum := sha256.Sum256([]byte(token))
	return sum[:]
}

// runtimeOf reads the runtime's ID from a refresh token.
func runtimeOf(token string) (string, bool) {
	rest, found := strings.CutPrefix(token, refreshPrefix)
	if !found || len(token) > maxRefresh {
		return "", false
	}
	id, random, found := strings.Cut(rest, "_")
	return id, found && id != "" && random != ""
}

// credential is what an agent gets: an access token of the generation and the
// refresh token.
func (f *Fleet) credential(runtime store.Runtime, generation int64, refresh string) (*platformv1.Credential, error) {
	access, expires, err := f.signer.RuntimeAccess(runtime, generation)
	if err != nil {
		return nil, err
	}
	return &platformv1.Credential{
		AccessToken: access, AccessExpiresAt: timestamppb.New(expires), RefreshToken: refresh,
		PlatformKeys: f.signer.PublicKeys(), TunnelUrls: f.options.TunnelURLs(), TunnelHost: f.tunnelHost(runtime),
	}, nil
}

// tunnelHost is the host name that a runtime has in tunnel mode. An agent is told in
// every mode: it gets its credential before it says which one it has now.
func (f *Fleet) tunnelHost(runtime store.Runtime) string {
	if f.options.TunnelDomain == "" {
		return ""
	}
	return wire.TunnelLabel(runtime.AccountID, runtime.Name) + "." + f.options.TunnelDomain
}

// issue replaces the credential of a runtime; the one before is void.
func (f *Fleet) issue(ctx context.Context, runtime store.Runtime) (*platformv1.Credential, error) {
	generation := int64(1)
	before, err := f.store.Credential(ctx, runtime.ID)
	switch {
	case err == nil:
		generation = before.Generation + 1
	case !errors.Is(err, store.ErrNotFound):
		return nil, err
	}
	refresh, hash := newRefresh(runtime.ID)
	err = f.store.PutCredential(ctx, store.RuntimeCredential{
		RuntimeID: runtime.ID, Generation: generation, RefreshHash: hash, RotatedAt: f.now().UTC(),
	})
	if err != nil {
		return nil, err
	}
	return f.credential(runtime, generation, refresh)
}

// errRefresh is any refresh token that is not good.
var errRefresh = connect.NewError(connect.CodeUnauthenticated, errors.New("the refresh token is not valid: register the runtime again, with an API key"))

// errRevoked is a refresh token that was good until somebody revoked it. The agent
// tells it from one that is not known, and does not register again by itself.
var errRevoked = connect.NewError(connect.CodePermissionDenied, errors.New("the credentials of the runtime were revoked: register it again, with a new API key"))

// RenewCredential gives the next credential for a refresh token.
func (a agentService) RenewCredential(ctx context.Context, request *connect.Request[platformv1.RenewCredentialRequest]) (*connect.Response[platformv1.RenewCredentialResponse], error) {
	credential, err := a.renew(ctx, request.Msg.GetRefreshToken())
	label := outcome(err)
	switch {
	case errors.Is(err, store.ErrReused):
		label = "reused"
		a.log.Warn("a refresh token was used twice: the credentials of the runtime are revoked", "address", request.Peer().Addr)
		err = errRevoked
	case errors.Is(err, errRefresh), errors.Is(err, errRevoked):
		label = "denied"
	}
	a.metrics.renewals.WithLabelValues(label).Inc()
	if err != nil {
		return nil, a.answer(err)
	}
	return connect.NewResponse(&platformv1.RenewCredentialResponse{Credential: credential}), nil
}

func (f *Fleet) renew(ctx context.Context, token string) (*platformv1.Credential, error) {
	id, ok := runtimeOf(token)
	if !ok {
		return nil, errRefresh
	}
	runtime, err := f.store.RuntimeByID(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return nil, errRefresh
	}
	if err != nil {
		return nil, err
	}
	refresh, hash := newRefresh(runtime.ID)
	rotated, err := f.store.RotateCredential(ctx, store.Rotation{
		RuntimeID: runtime.ID, Presented: refreshHash(token), NewHash: hash, Now: f.now().UTC(), Grace: refreshGrace,
	})
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, errRefresh
	case errors.Is(err, store.ErrRevoked):
		return nil, errRevoked
	}
	if err != nil {
		return nil, err
	}
	return f.credential(runtime, rotated.Generation, refresh)
}
