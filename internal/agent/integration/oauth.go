package integration

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"net/url"
	"strings"
	"time"

	"connectrpc.com/connect"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"slipway.dev/slipway/internal/gitprovider"
	"slipway.dev/slipway/internal/secret"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/permission"
	"slipway.dev/slipway/internal/wire/runtimev1"
)

// The OAuth application of an admin, and the logins in progress.
const (
	oauthPrefix = "slipway-oauth-"
	flowsSecret = "slipway-oauth-flows"
	// flowLifetime is how long a user has to log in at the provider.
	flowLifetime = 10 * time.Minute
	// maxFlows bounds the logins that users began and never finished.
	maxFlows = 200
)

// errFlow is the error for a login that cannot be finished. It does not
// distinguish the cases, so that a state cannot be probed.
var errFlow = errors.New("this login is not known: it was used, is older than ten minutes, or was begun by another user: begin again")

// flow is an OAuth login in progress. It is stored in the cluster, so that any
// replica can finish it.
type flow struct {
	// User began the login; only this user can finish it.
	User string `json:"user"`
	// Integration receives the token. It is empty for a token of the runtime.
	Integration string `json:"integration,omitempty"`
	// Runtime is set for a login that sets the runtime's own token.
	Runtime bool `json:"runtime,omitempty"`
	// Verifier is the PKCE verifier. It is sent with the code and proves that
	// the login was begun here.
	Verifier string `json:"verifier"`
	// Redirect must be the same in both requests (RFC 6749, section 4.1.3).
	Redirect string `json:"redirect"`
	// Provider and APIURL are those at the start: if the integration changes
	// meanwhile, the token must not be stored there.
	Provider string    `json:"provider"`
	APIURL   string    `json:"apiURL"`
	Expires  time.Time `json:"expires"`
}

// storedFlow is an encrypted flow. The expiry is in the clear, so that expired
// ones can be removed without the key of their user.
type storedFlow struct {
	Expires time.Time `json:"expires"`
	Sealed  []byte    `json:"sealed"`
}

// oauthApplication reads the OAuth application of a provider (R64).
func (s *Service) oauthApplication(ctx context.Context, kind gitprovider.Kind) (*corev1.Secret, error) {
	name := oauthPrefix + string(kind)
	found, err := s.secrets().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, precondition("no OAuth application of %s is registered: an admin registers one there and makes the Secret %s with clientId and clientSecret; or paste a token instead", kind.Title(), name)
	}
	if err != nil {
		return nil, storeError("read the Secret", name, err)
	}
	return found, nil
}

// oauth returns the OAuth client of a provider. The Secret is read for each
// login, so that a rotated client secret takes effect without a restart.
func (s *Service) oauth(ctx context.Context, kind gitprovider.Kind, apiURL string, purpose gitprovider.Purpose) (*gitprovider.OAuth, error) {
	application, err := s.oauthApplication(ctx, kind)
	if err != nil {
		return nil, err
	}
	authorities, err := s.authorities(ctx, apiURL, nil)
	if err != nil {
		return nil, err
	}
	return gitprovider.NewOAuth(gitprovider.OAuthOptions{
		Kind: kind, APIURL: apiURL, Purpose: purpose, CAs: authorities, Outbound: s.options.Outbound, Now: s.options.Now,
		ClientID:     strings.TrimSpace(string(application.Data["clientId"])),
		ClientSecret: secret.New(strings.TrimSpace(string(application.Data["clientSecret"]))),
	})
}

// BeginOAuth implements IntegrationService. It uses PKCE (RFC 7636): the
// verifier stays in the cluster, so that an intercepted code is useless.
func (s *Service) BeginOAuth(ctx context.Context, request *connect.Request[runtimev1.BeginOAuthRequest]) (*connect.Response[runtimev1.BeginOAuthResponse], error) {
	claims, err := requireUser(ctx)
	if err != nil {
		return nil, err
	}
	// Everything is checked before the user is sent to the provider.
	begun, purpose, err := s.newFlow(ctx, claims, request.Msg)
	if err != nil {
		return nil, err
	}
	provider, err := s.oauth(ctx, gitprovider.Kind(begun.Provider), begun.APIURL, purpose)
	if err != nil {
		return nil, toConnectError(err)
	}
	verifier, challenge := gitprovider.NewVerifier()
	begun.Verifier = verifier.Reveal()
	// The state protects against forged callbacks: only the browser that began
	// the login has it.
	state := randomText()
	address, err := provider.AuthorizeURL(state, begun.Redirect, challenge)
	if err != nil {
		return nil, toConnectError(err)
	}
	if err := s.storeFlow(ctx, state, begun); err != nil {
		return nil, toConnectError(err)
	}
	return connect.NewResponse(&runtimev1.BeginOAuthResponse{Url: address, State: state}), nil
}

// newFlow checks the request and returns the login that it begins.
func (s *Service) newFlow(ctx context.Context, claims wire.RuntimeClaims, given *runtimev1.BeginOAuthRequest) (flow, gitprovider.Purpose, error) {
	if err := checkRedirect(given.GetRedirectUrl(), claims.Issuer); err != nil {
		return flow{}, 0, err
	}
	begun := flow{User: claims.UserID, Redirect: given.GetRedirectUrl(), Expires: s.options.Now().Add(flowLifetime)}
	// The runtime's token is used for every repository, so that only admins may
	// set it.
	if given.GetRuntimeToken() {
		if _, err := requireAdmin(ctx); err != nil {
			return flow{}, 0, err
		}
		kind, apiURL, err := s.target("", "")
		begun.Runtime, begun.Provider, begun.APIURL = true, string(kind), apiURL
		return begun, gitprovider.RuntimeToken, err
	}
	r, err := s.load(ctx, given.GetIntegration())
	if err != nil {
		return flow{}, 0, err
	}
	if r.Sharing == sharingAdmins && claims.Role != permission.RoleAdmin {
		return flow{}, 0, connect.NewError(connect.CodePermissionDenied, errSharing)
	}
	begun.Integration, begun.Provider, begun.APIURL = r.name, r.Provider, r.APIURL
	return begun, gitprovider.UserToken, nil
}

// checkRedirect allows redirects to the platform only: an authorization code
// sent elsewhere could be used by its receiver.
func checkRedirect(redirect, issuer string) error {
	back, err := url.Parse(redirect)
	platform, platformErr := url.Parse(issuer)
	if err != nil || platformErr != nil || back.Host == "" || back.User != nil || back.Scheme != platform.Scheme || !strings.EqualFold(back.Host, platform.Host) {
		return invalid("the address to come back to has to be one of the platform")
	}
	return nil
}

// randomText returns 256 random bits as text.
func randomText() string {
	raw := make([]byte, 32)
	_, _ = rand.Read(raw) // never returns an error: it crashes the process instead
	return base64.RawURLEncoding.EncodeToString(raw)
}

// flowField is the field of a flow: a hash of the state. The state itself is
// not stored, so that reading the Secret does not allow to finish a login.
func flowField(state string) string {
	hash := sha256.Sum256([]byte(state))
	return hex.EncodeToString(hash[:])
}

// storeFlow encrypts and stores a flow, and removes expired ones. Removal and
// insertion are one update, so that the bound on flows holds under concurrent
// logins.
func (s *Service) storeFlow(ctx context.Context, state string, begun flow) error {
	seal, err := s.sealer(ctx)
	if err != nil {
		return err
	}
	text, err := json.Marshal(begun)
	if err != nil {
		return err
	}
	field := flowField(state)
	stored, err := json.Marshal(storedFlow{Expires: begun.Expires, Sealed: seal.seal(text, binding{Purpose: "oauth", User: begun.User, Flow: field})})
	if err != nil {
		return err
	}
	return s.changeFlows(ctx, func(data map[string][]byte) error {
		now := s.options.Now()
		maps.DeleteFunc(data, func(_ string, text []byte) bool {
			var one storedFlow
			return json.Unmarshal(text, &one) != nil || !now.Before(one.Expires)
		})
		if len(data) >= maxFlows {
			return connect.NewError(connect.CodeResourceExhausted, errors.New("too many logins are under way: try again in some minutes"))
		}
		data[field] = stored
		return nil
	})
}

// takeFlow removes a flow and returns it to the user who began it. Of two
// concurrent calls one gets it: the other's update conflicts, and its retry
// finds nothing. It is removed before the code is exchanged, so that a code is
// never sent twice.
func (s *Service) takeFlow(ctx context.Context, state, user string) (flow, error) {
	if state == "" || len(state) > 256 {
		return flow{}, precondition("%w", errFlow)
	}
	seal, err := s.sealer(ctx)
	if err != nil {
		return flow{}, err
	}
	var taken flow
	field := flowField(state)
	err = s.changeFlows(ctx, func(data map[string][]byte) error {
		var stored storedFlow
		if json.Unmarshal(data[field], &stored) != nil || !s.options.Now().Before(stored.Expires) {
			return precondition("%w", errFlow)
		}
		// It is bound to its user: for another it cannot be opened, and stays.
		text, err := seal.open(stored.Sealed, binding{Purpose: "oauth", User: user, Flow: field})
		if err != nil || json.Unmarshal(text, &taken) != nil || taken.User != user {
			return precondition("%w", errFlow)
		}
		delete(data, field)
		return nil
	})
	if err != nil {
		return flow{}, err
	}
	return taken, nil
}

// changeFlows changes the Secret of the flows in one update, with retries on
// conflicts. change may run several times, each time on a fresh copy. An error
// of it ends the retries and leaves the Secret unchanged.
func (s *Service) changeFlows(ctx context.Context, change func(data map[string][]byte) error) error {
	// All users share this Secret, so conflicts are more likely than the
	// default number of retries assumes.
	backoff := retry.DefaultBackoff
	backoff.Steps = 20
	err := retry.OnError(backoff, func(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }, func() error {
		found, err := s.secrets().Get(ctx, flowsSecret, metav1.GetOptions{})
		missing := apierrors.IsNotFound(err)
		if missing {
			found, err = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: flowsSecret, Labels: labels("oauth")}}, nil
		}
		if err != nil {
			return err
		}
		if found.Data == nil {
			found.Data = map[string][]byte{}
		}
		if err := change(found.Data); err != nil {
			return err
		}
		if missing {
			_, err = s.secrets().Create(ctx, found, metav1.CreateOptions{})
		} else {
			_, err = s.secrets().Update(ctx, found, metav1.UpdateOptions{})
		}
		return err
	})
	if err != nil {
		return connectErrorOr(err, func() error { return storeError("change the Secret", flowsSecret, err) })
	}
	return nil
}

// FinishOAuth implements IntegrationService. It exchanges the code for a token
// and stores it like a pasted one.
func (s *Service) FinishOAuth(ctx context.Context, request *connect.Request[runtimev1.FinishOAuthRequest]) (*connect.Response[runtimev1.FinishOAuthResponse], error) {
	claims, err := requireUser(ctx)
	if err != nil {
		return nil, err
	}
	taken, err := s.takeFlow(ctx, request.Msg.GetState(), claims.UserID)
	if err != nil {
		return nil, toConnectError(err)
	}
	purpose := gitprovider.UserToken
	// The role may have been revoked since the login began.
	if taken.Runtime {
		purpose = gitprovider.RuntimeToken
		if _, err := requireAdmin(ctx); err != nil {
			return nil, err
		}
	}
	provider, err := s.oauth(ctx, gitprovider.Kind(taken.Provider), taken.APIURL, purpose)
	if err != nil {
		return nil, toConnectError(err)
	}
	grant, err := provider.Exchange(ctx, request.Msg.GetCode(), taken.Verifier, taken.Redirect)
	if err != nil {
		return nil, toConnectError(err)
	}
	status, err := s.storeGrant(ctx, claims, taken, grant)
	if err != nil {
		return nil, toConnectError(err)
	}
	return connect.NewResponse(&runtimev1.FinishOAuthResponse{Status: status}), nil
}

// storeGrant stores the token of a finished login for the user or for the
// runtime. The integration must still be the one that the login was begun for.
func (s *Service) storeGrant(ctx context.Context, claims wire.RuntimeClaims, taken flow, grant gitprovider.Grant) (*runtimev1.TokenStatus, error) {
	clear := clearToken{Token: grant.Token, Refresh: grant.Refresh, ExpiresAt: grant.ExpiresAt}
	if !taken.Runtime {
		r, err := s.load(ctx, taken.Integration)
		if err != nil {
			return nil, err
		}
		if r.Provider != taken.Provider || r.APIURL != taken.APIURL {
			return nil, precondition("the integration %s was changed meanwhile: begin again", r.name)
		}
		return s.register(ctx, r, claims, clear)
	}
	// The grant replaces the token and keeps the other fields, such as the SSH
	// key.
	wanted, err := s.merge(ctx, &runtimev1.SetRuntimeCredentialsRequest{Token: grant.Token.Reveal()})
	if err != nil {
		return nil, err
	}
	wanted.clearToken = clear
	if err := s.checkAndStore(ctx, wanted, false); err != nil {
		return nil, err
	}
	return wanted.status.message(s.options.Runtime), nil
}

// needsRenewal reports whether an OAuth token expires too soon to be used.
// Pasted tokens have no refresh token and are never renewed.
func (s *Service) needsRenewal(clear clearToken) bool {
	return !clear.Refresh.IsZero() && !clear.ExpiresAt.IsZero() && s.options.Now().Add(renewBefore).After(clear.ExpiresAt)
}

// renew exchanges a refresh token for the next token. Providers with rotating
// refresh tokens invalidate the old one, so the caller must store the result.
func (s *Service) renew(ctx context.Context, kind gitprovider.Kind, apiURL string, clear clearToken) (clearToken, error) {
	provider, err := s.oauth(ctx, kind, apiURL, gitprovider.UserToken)
	if err != nil {
		return clearToken{}, err
	}
	grant, err := provider.Refresh(ctx, clear.Refresh)
	if err != nil {
		return clearToken{}, err
	}
	return clearToken{Token: grant.Token, Refresh: grant.Refresh, ExpiresAt: grant.ExpiresAt, Username: clear.Username}, nil
}

// renewUser renews and stores the token of a user.
func (s *Service) renewUser(ctx context.Context, r *record, user string, clear clearToken) (clearToken, error) {
	next, err := s.renew(ctx, gitprovider.Kind(r.Provider), r.APIURL, clear)
	if err != nil {
		return clearToken{}, err
	}
	one := r.users[user]
	one.User = cmp.Or(one.User, user)
	return next, s.putToken(ctx, r, one, next)
}
