package identity

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"slipway.dev/slipway/api/finding"
	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// KeyLifetimes are the settings for the lifetimes of new keys.
type KeyLifetimes struct {
	// Default is for requests without a lifetime; 0 means Max.
	Default time.Duration
	// Max bounds all requests; 0 allows keys that do not expire.
	Max time.Duration
}

// Limits of a key's lifetime, whatever the settings are.
const (
	keyLifeMin = time.Minute
	keyLifeMax = 10 * 366 * 24 * time.Hour
)

// keyService implements KeyService.
type keyService struct{ *Identity }

// CreateKey creates a key of the caller. A key that is created with another
// key is its child: it expires no later and is revoked with it.
func (s keyService) CreateKey(ctx context.Context, request *connect.Request[platformv1.CreateKeyRequest]) (*connect.Response[platformv1.CreateKeyResponse], error) {
	caller, _ := CallerFrom(ctx)
	name, err := checkName("the key", request.Msg.GetName())
	if err != nil {
		return nil, err
	}
	scopes, err := scopesOf(request.Msg.GetScopes())
	if err != nil {
		return nil, err
	}
	// The permission is checked when the key is created and again when it is
	// used: its user may lose the role.
	if slices.Contains(scopes, ScopeRuntimeRegister) && caller.User.Role != store.RoleAdmin {
		return nil, s.apiError(forbidden("only an admin can make a key that registers runtimes"))
	}
	expires, err := s.keyExpiry(caller, request.Msg)
	if err != nil {
		return nil, err
	}
	id, value := newKeyText()
	wanted := store.Key{
		ID: id, AccountID: caller.Account.ID, UserID: caller.User.ID, Name: name, Prefix: shownPrefix(id),
		Hash: hashOf(value), Scopes: scopes, CreatedAt: s.now().UTC(), ExpiresAt: expires,
	}
	if caller.Key != nil {
		wanted.ParentID = caller.Key.ID
	}
	key, err := s.store.CreateKey(ctx, wanted)
	if err != nil {
		return nil, s.apiError(err)
	}
	Describe(ctx, "key/"+name, key.Prefix)
	// A revocation or a password reset that was committed before the insert
	// could not see the new key. One that commits later revokes it.
	if err := s.stillValid(ctx, caller); err != nil {
		return nil, s.apiError(errors.Join(err, s.store.RevokeKey(ctx, key.AccountID, key.ID)))
	}
	return connect.NewResponse(&platformv1.CreateKeyResponse{Key: keyMessage(key), Secret: keyText(id, value).Reveal()}), nil
}

// keyExpiry returns the expiry of a new key; zero means none.
func (s keyService) keyExpiry(caller Caller, request *platformv1.CreateKeyRequest) (time.Time, error) {
	allowed := s.options.KeyLifetimes
	life := cmp.Or(allowed.Default, allowed.Max)
	if request.GetLifetime() != nil {
		life = request.GetLifetime().AsDuration()
		if request.GetLifetime().CheckValid() != nil || (life != 0 && life < keyLifeMin) || life > keyLifeMax {
			return time.Time{}, invalid("the lifetime of a key is between a minute and ten years, or 0 for a key that does not expire")
		}
		if allowed.Max > 0 && (life == 0 || life > allowed.Max) {
			return time.Time{}, invalid("the lifetime of a key is at most %s on this platform: request less, or let the operator raise keys.maxLifetime", lifetimeText(allowed.Max))
		}
	}
	var expires time.Time
	if life > 0 {
		expires = s.now().UTC().Add(life)
	}
	// A stolen key must not create a successor that outlives it.
	if caller.Key != nil && !caller.Key.ExpiresAt.IsZero() && (expires.IsZero() || caller.Key.ExpiresAt.Before(expires)) {
		expires = caller.Key.ExpiresAt
	}
	return expires, nil
}

// lifetimeText formats a lifetime, whole days as days.
func lifetimeText(life time.Duration) string {
	const day = 24 * time.Hour
	if life%day != 0 {
		return life.String()
	}
	return finding.Count(int(life/day), "day", "days")
}

// ListKeys lists the caller's keys, or all keys of the account for an admin.
func (s keyService) ListKeys(ctx context.Context, request *connect.Request[platformv1.ListKeysRequest]) (*connect.Response[platformv1.ListKeysResponse], error) {
	caller, _ := CallerFrom(ctx)
	filter := store.KeyFilter{UserID: caller.User.ID, IncludeRevoked: request.Msg.GetIncludeRevoked()}
	if caller.User.Role == store.RoleAdmin {
		filter.UserID = ""
	}
	keys, next, err := s.store.Keys(ctx, caller.Account.ID, filter, page(request.Msg))
	if err != nil {
		return nil, s.apiError(err)
	}
	response := &platformv1.ListKeysResponse{NextPageToken: next}
	for _, key := range keys {
		response.Keys = append(response.Keys, keyMessage(key))
	}
	return connect.NewResponse(response), nil
}

// RevokeKey revokes a key of the caller, or any key of the account for an
// admin. Keys of others are reported as not found, so that IDs cannot be
// probed.
func (s keyService) RevokeKey(ctx context.Context, request *connect.Request[platformv1.RevokeKeyRequest]) (*connect.Response[platformv1.RevokeKeyResponse], error) {
	caller, _ := CallerFrom(ctx)
	key, err := s.store.KeyByID(ctx, request.Msg.GetId())
	foreign := key.AccountID != caller.Account.ID || (key.UserID != caller.User.ID && caller.User.Role != store.RoleAdmin)
	if errors.Is(err, store.ErrNotFound) || (err == nil && foreign) {
		return nil, connect.NewError(connect.CodeNotFound, errors.New("there is no such key"))
	}
	if err == nil {
		Describe(ctx, "key/"+key.Name, key.Prefix)
		err = s.store.RevokeKey(ctx, caller.Account.ID, key.ID)
	}
	if err != nil {
		return nil, s.apiError(err)
	}
	return connect.NewResponse(&platformv1.RevokeKeyResponse{}), nil
}

// scopesOf converts the scopes of a request; none means all.
func scopesOf(scopes []platformv1.Scope) ([]string, error) {
	if len(scopes) == 0 {
		return []string{ScopeAll}, nil
	}
	var names []string
	for _, scope := range scopes {
		name, ok := map[platformv1.Scope]string{
			platformv1.Scope_SCOPE_ALL:              ScopeAll,
			platformv1.Scope_SCOPE_READ:             ScopeRead,
			platformv1.Scope_SCOPE_RUNTIME_REGISTER: ScopeRuntimeRegister,
		}[scope]
		if !ok {
			return nil, invalid("the scopes of a key are SCOPE_ALL, SCOPE_READ and SCOPE_RUNTIME_REGISTER")
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, nil
}

// keyMessage converts a key to its API message, without the secret's hash.
func keyMessage(key store.Key) *platformv1.Key {
	message := &platformv1.Key{
		Id: key.ID, Name: key.Name, Prefix: key.Prefix, UserId: key.UserID, ParentId: key.ParentID, CreatedAt: timestamppb.New(key.CreatedAt),
		ExpiresAt: wire.Timestamp(key.ExpiresAt), LastUsedAt: wire.Timestamp(key.LastUsedAt), RevokedAt: wire.Timestamp(key.RevokedAt),
	}
	for _, scope := range key.Scopes {
		switch scope {
		case ScopeAll:
			message.Scopes = append(message.Scopes, platformv1.Scope_SCOPE_ALL)
		case ScopeRead:
			message.Scopes = append(message.Scopes, platformv1.Scope_SCOPE_READ)
		case ScopeRuntimeRegister:
			message.Scopes = append(message.Scopes, platformv1.Scope_SCOPE_RUNTIME_REGISTER)
		}
	}
	return message
}
