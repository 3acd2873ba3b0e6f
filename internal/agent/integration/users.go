package integration

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"slipway.dev/slipway/internal/gitprovider"
	"slipway.dev/slipway/internal/secret"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/permission"
	"slipway.dev/slipway/internal/wire/runtimev1"
)

// maxTokenBytes is longer than the token of any provider. It bounds the size of
// a user's field in the Secret.
const maxTokenBytes = 8 << 10

// all reads every integration, by name. Secrets that are no integration are
// skipped. One that is damaged does not hide the others.
func (s *Service) all(ctx context.Context) ([]*record, error) {
	list, err := s.secrets().List(ctx, metav1.ListOptions{LabelSelector: typeLabel + "=git," + nameLabel})
	if err != nil {
		return nil, storeError("list", "Secrets", err)
	}
	var records []*record
	for i := range list.Items {
		name := strings.TrimPrefix(list.Items[i].Name, secretPrefix)
		if one, err := parseRecord(name, &list.Items[i]); err == nil {
			records = append(records, one)
		}
	}
	slices.SortFunc(records, func(x, y *record) int { return cmp.Compare(x.name, y.name) })
	return records, nil
}

// ListIntegrations implements IntegrationService. A user sees the status of
// their own token, and an admin that of all.
func (s *Service) ListIntegrations(ctx context.Context, _ *connect.Request[runtimev1.ListIntegrationsRequest]) (*connect.Response[runtimev1.ListIntegrationsResponse], error) {
	claims, err := requireUser(ctx)
	if err != nil {
		return nil, err
	}
	// The default integration exists as soon as the account has a provider.
	if s.settings().GetProvider() != "" {
		if _, err := s.load(ctx, defaultName); err != nil {
			return nil, err
		}
	}
	records, err := s.all(ctx)
	if err != nil {
		return nil, err
	}
	response := &runtimev1.ListIntegrationsResponse{}
	for _, one := range records {
		response.Integrations = append(response.Integrations, s.messageOf(ctx, one, claims))
	}
	return connect.NewResponse(response), nil
}

// messageOf converts an integration, with the tokens that the user may see.
func (s *Service) messageOf(ctx context.Context, r *record, claims wire.RuntimeClaims) *runtimev1.Integration {
	// Tokens of other users are not even counted for a user who is no admin.
	out := &runtimev1.Integration{Name: r.name, Provider: r.Provider, ApiUrl: r.APIURL, Sharing: r.Sharing}
	_, err := s.oauthApplication(ctx, gitprovider.Kind(r.Provider))
	out.Oauth = err == nil
	for _, user := range slices.Sorted(maps.Keys(r.users)) {
		if user == claims.UserID || claims.Role == permission.RoleAdmin {
			one := r.users[user]
			out.Users = append(out.Users, one.Status.message(cmp.Or(one.Email, one.User)))
		}
	}
	return out
}

// message converts the status of a token.
func (e tokenStatus) message(user string) *runtimev1.TokenStatus {
	return &runtimev1.TokenStatus{
		User: user, Login: e.Login, State: e.State, Message: e.Message, Kind: e.Kind, MissingScopes: e.Missing,
		ExpiresAt: wire.Timestamp(e.ExpiresAt), CheckedAt: wire.Timestamp(e.CheckedAt),
	}
}

// statusOf converts the result of a check.
func statusOf(report gitprovider.TokenReport, err error, now time.Time) tokenStatus {
	out := tokenStatus{
		Login: report.Login, Kind: string(report.Kind), State: string(gitprovider.StateOf(report, err, now)),
		Missing: report.MissingNames(), ExpiresAt: report.ExpiresAt, CheckedAt: now.UTC().Truncate(time.Second),
	}
	if err != nil {
		out.Message = err.Error()
	} else {
		out.Message = report.Message(now)
	}
	return out
}

// AddIntegration implements IntegrationService. Adding the same integration
// again is no error (R82).
func (s *Service) AddIntegration(ctx context.Context, request *connect.Request[runtimev1.AddIntegrationRequest]) (*connect.Response[runtimev1.AddIntegrationResponse], error) {
	claims, err := requireAdmin(ctx)
	if err != nil {
		return nil, err
	}
	wanted, err := s.validate(request.Msg.GetIntegration())
	if err != nil {
		return nil, err
	}
	stored, err := s.create(ctx, wanted)
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&runtimev1.AddIntegrationResponse{Integration: s.messageOf(ctx, stored, claims)}), nil
}

// validate checks an integration in a request.
func (s *Service) validate(given *runtimev1.Integration) (*record, error) {
	// Missing fields have defaults, so that the shortest request works.
	r := &record{name: cmp.Or(given.GetName(), defaultName), Sharing: cmp.Or(given.GetSharing(), sharingAll)}
	if err := checkName(r.name); err != nil {
		return nil, err
	}
	if r.Sharing != sharingAll && r.Sharing != sharingAdmins {
		return nil, invalid("who may use an integration is %s or %s", sharingAll, sharingAdmins)
	}
	kind, apiURL, err := s.target(given.GetProvider(), given.GetApiUrl())
	r.Provider, r.APIURL = string(kind), apiURL
	return r, err
}

// EditIntegration implements IntegrationService. A token is for one provider at
// one address: if these change, all tokens are deleted and never sent to the
// new one.
func (s *Service) EditIntegration(ctx context.Context, request *connect.Request[runtimev1.EditIntegrationRequest]) (*connect.Response[runtimev1.EditIntegrationResponse], error) {
	claims, err := requireAdmin(ctx)
	if err != nil {
		return nil, err
	}
	wanted, err := s.validate(request.Msg.GetIntegration())
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(wanted)
	if err != nil {
		return nil, err
	}
	name := secretPrefix + wanted.name
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		found, err := s.secrets().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		// The comparison and the update are one step, so that no token that was
		// registered meanwhile survives a change of the provider.
		before, err := parseRecord(wanted.name, found)
		if err != nil {
			return err
		}
		found.Data[settingsField] = text
		if before.Provider != wanted.Provider || before.APIURL != wanted.APIURL {
			maps.DeleteFunc(found.Data, func(field string, _ []byte) bool { return strings.HasPrefix(field, userPrefix) })
		}
		_, err = s.secrets().Update(ctx, found, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return nil, connectErrorOr(err, func() error { return storeError("change the Secret", name, err) })
	}
	stored, err := s.load(ctx, wanted.name)
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&runtimev1.EditIntegrationResponse{Integration: s.messageOf(ctx, stored, claims)}), nil
}

// RemoveIntegration implements IntegrationService. Its tokens are deleted with
// it.
func (s *Service) RemoveIntegration(ctx context.Context, request *connect.Request[runtimev1.RemoveIntegrationRequest]) (*connect.Response[runtimev1.RemoveIntegrationResponse], error) {
	if _, err := requireAdmin(ctx); err != nil {
		return nil, err
	}
	stored, err := s.load(ctx, request.Msg.GetName())
	if err != nil {
		return nil, err
	}
	// It would be created again from the settings of the account.
	if stored.name == defaultName && s.settings().GetProvider() != "" {
		return nil, connect.NewError(connect.CodeFailedPrecondition,
			fmt.Errorf("the integration default follows from the Git settings of the account, and cannot be removed: change them with slipway account git set --shared-repository URL, or remove your token with slipway integration git deregister --runtime %s", s.options.Runtime))
	}
	if err := s.secrets().Delete(ctx, secretPrefix+stored.name, metav1.DeleteOptions{}); err != nil {
		return nil, storeError("delete the Secret", secretPrefix+stored.name, err)
	}
	return connect.NewResponse(&runtimev1.RemoveIntegrationResponse{}), nil
}

// Register implements IntegrationService. It stores the user's token after the
// provider has confirmed its scopes (R17, R70).
func (s *Service) Register(ctx context.Context, request *connect.Request[runtimev1.RegisterRequest]) (*connect.Response[runtimev1.RegisterResponse], error) {
	claims, err := requireUser(ctx)
	if err != nil {
		return nil, err
	}
	given := strings.TrimSpace(request.Msg.GetToken())
	if given == "" || len(given) > maxTokenBytes {
		return nil, invalid("give the token that your Git provider made for you")
	}
	r, err := s.load(ctx, request.Msg.GetIntegration())
	if err != nil {
		return nil, err
	}
	status, err := s.register(ctx, r, claims, clearToken{Token: secret.New(given), Username: request.Msg.GetUsername()})
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&runtimev1.RegisterResponse{Status: status}), nil
}

// register checks and stores a token, pasted or from an OAuth login.
func (s *Service) register(ctx context.Context, r *record, claims wire.RuntimeClaims, clear clearToken) (*runtimev1.TokenStatus, error) {
	switch {
	case r.Sharing == sharingAdmins && claims.Role != permission.RoleAdmin:
		return nil, connect.NewError(connect.CodePermissionDenied, errSharing)
	case len(r.users) >= maxUsers && r.users[claims.UserID].User == "":
		return nil, precondition("the integration %s has the tokens of %d users, which is the most: add another integration", r.name, maxUsers)
	}
	provider, err := s.provider(ctx, providerChoice{kind: gitprovider.Kind(r.Provider), apiURL: r.APIURL, clear: clear})
	if err != nil {
		return nil, toConnectError(err)
	}
	// The provider is asked before the token is stored, so that a typing error
	// is reported at once.
	report, err := provider.Check(ctx, gitprovider.UserToken)
	if err != nil {
		return nil, toConnectError(err)
	}
	status := statusOf(report, nil, s.options.Now())
	if status.State != string(gitprovider.StateOK) {
		return nil, precondition("the token is not stored: %s", status.Message)
	}
	one := storedToken{User: claims.UserID, Email: claims.Email, Status: status}
	if err := s.putToken(ctx, r, one, clear); err != nil {
		return nil, toConnectError(err)
	}
	return status.message(cmp.Or(one.Email, one.User)), nil
}

// Deregister implements IntegrationService. It deletes the user's token.
func (s *Service) Deregister(ctx context.Context, request *connect.Request[runtimev1.DeregisterRequest]) (*connect.Response[runtimev1.DeregisterResponse], error) {
	claims, err := requireUser(ctx)
	if err != nil {
		return nil, err
	}
	r, err := s.load(ctx, request.Msg.GetIntegration())
	if err != nil {
		return nil, err
	}
	if err := s.patchUser(ctx, r, claims.UserID, nil); err != nil {
		return nil, toConnectError(err)
	}
	return connect.NewResponse(&runtimev1.DeregisterResponse{}), nil
}

// UserToken returns the token of a user for an integration, and the user name
// at the provider where one is needed. An OAuth token that is about to expire
// is renewed first.
func (s *Service) UserToken(ctx context.Context, integration, user string) (token secret.Text, username string, err error) {
	r, err := s.load(ctx, integration)
	if err != nil {
		return secret.Text{}, "", err
	}
	clear, err := s.openToken(ctx, r, user)
	if err != nil {
		return secret.Text{}, "", err
	}
	// The renewed token is stored before it is returned: refresh tokens are
	// valid once.
	if s.needsRenewal(clear) {
		if clear, err = s.renewUser(ctx, r, user, clear); err != nil {
			return secret.Text{}, "", toConnectError(err)
		}
	}
	return clear.Token, clear.Username, nil
}
