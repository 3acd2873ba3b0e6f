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

	"slipway.dev/slipway/internal/observe"
	"slipway.dev/slipway/internal/platform/identity"
	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/platformv1"
	"slipway.dev/slipway/internal/wire/platformv1/platformv1connect"
)

const (
	// refreshPrefix marks a refresh token, so that secret scanners recognize
	// it. The runtime's ID and the secret follow.
	refreshPrefix = "slwr_"
	// refreshGrace is how long the previous refresh token stays valid, in
	// case the response with the new one was lost.
	refreshGrace = 2 * time.Minute
	// maxRefresh bounds a refresh token before it is parsed.
	maxRefresh = 256
)

// newRefresh returns a refresh token and the hash to store.
func newRefresh(runtimeID string) (token string, hash []byte) {
	token = refreshPrefix + runtimeID + "_" + rand.Text()
	return token, refreshHash(token)
}

// refreshHash returns the stored form of a refresh token. The token is random
// with 130 bits, so a plain hash is not reversible.
func refreshHash(token string) []byte {
	sum := sha256.Sum256([]byte(token))
	return sum[:]
}

// runtimeOf returns the runtime ID of a refresh token.
func runtimeOf(token string) (string, bool) {
	rest, found := strings.CutPrefix(token, refreshPrefix)
	if !found || len(token) > maxRefresh {
		return "", false
	}
	id, random, found := strings.Cut(rest, "_")
	return id, found && id != "" && random != ""
}

// credential returns the credential message for an agent: an access token of
// the generation and the refresh token.
func (f *Fleet) credential(runtime store.Runtime, generation int64, refresh string) (*platformv1.Credential, error) {
	// The access token is short-lived and self-contained; the refresh token
	// is stored as a hash.
	access, expires, err := f.signer.RuntimeAccess(runtime, generation)
	if err != nil {
		return nil, err
	}
	return &platformv1.Credential{
		AccessToken: access, AccessExpiresAt: timestamppb.New(expires), RefreshToken: refresh,
		PlatformKeys: f.signer.PublicKeys(), TunnelUrls: f.options.TunnelURLs(), TunnelHost: f.tunnelHost(runtime),
	}, nil
}

// tunnelHost returns the host of a runtime's tunnel. Agents get it in every
// access mode, because the credential is issued before the agent reports its
// mode.
func (f *Fleet) tunnelHost(runtime store.Runtime) string {
	if f.options.TunnelDomain == "" {
		return ""
	}
	return wire.TunnelLabel(runtime.AccountID, runtime.Name) + "." + f.options.TunnelDomain
}

// issue replaces the credential of a runtime. The next generation invalidates
// all earlier access tokens.
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

// errRefresh is returned for an unknown refresh token.
var errRefresh = connect.NewError(connect.CodeUnauthenticated, errors.New("the refresh token is not valid: register the runtime again, with an API key"))

// errRevoked is returned for a revoked refresh token. The agent distinguishes
// it from an unknown one and does not register again by itself.
var errRevoked = connect.NewError(connect.CodePermissionDenied, errors.New("the credentials of the runtime were revoked: register it again, with a new API key"))

// RenewCredential exchanges a refresh token for a new credential.
func (a agentService) RenewCredential(ctx context.Context, request *connect.Request[platformv1.RenewCredentialRequest]) (*connect.Response[platformv1.RenewCredentialResponse], error) {
	credential, err := a.renew(ctx, request.Msg.GetRefreshToken())
	label := outcome(err)
	switch {
	case errors.Is(err, store.ErrReused):
		label = "reused"
		a.recordReuse(ctx, request.Msg.GetRefreshToken())
		err = errRevoked
	case errors.Is(err, errRefresh), errors.Is(err, errRevoked):
		label = "denied"
	}
	a.metrics.renewals.WithLabelValues(label).Inc()
	if err != nil {
		return nil, a.apiError(err)
	}
	return connect.NewResponse(&platformv1.RenewCredentialResponse{Credential: credential}), nil
}

// recordReuse writes to the audit log that a refresh token was used twice. The
// runtime exists: its ID is in the token, whose hash the store knew.
func (a agentService) recordReuse(ctx context.Context, token string) {
	id, _ := runtimeOf(token)
	caller, _ := identity.CallerFrom(ctx) // of a public procedure, it has the address alone
	runtime, err := a.store.RuntimeByID(ctx, id)
	if err == nil {
		a.log.Warn("refresh token reused; revoked the credentials of the runtime", "runtime", runtime.Name, "account", runtime.AccountID, "address", caller.Address)
		err = a.store.AppendAudit(ctx, store.AuditEntry{
			AccountID: runtime.AccountID, Actor: runtime.Name, ActorKind: identity.KindRuntime, Address: caller.Address,
			Action: identity.Action(platformv1connect.AgentServiceRenewCredentialProcedure), Target: "runtime/" + runtime.Name,
			Outcome: identity.OutcomeDenied, Code: errRevoked.Code().String(), AuditObject: store.AuditObject{Runtime: runtime.Name},
			Detail: "a refresh token was used twice, so two parties have it; the credentials of the runtime are revoked",
		})
	}
	if err != nil {
		a.log.Error("recording a reused refresh token failed", "runtimeID", id, observe.KeyError, err)
	}
}

// renew rotates the refresh token. The store decides atomically between
// valid, reused and unknown.
func (f *Fleet) renew(ctx context.Context, token string) (*platformv1.Credential, error) {
	id, ok := runtimeOf(token)
	if !ok {
		return nil, errRefresh
	}
	// The ID in the token only selects the row. The hash comparison in the
	// store authenticates it.
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
