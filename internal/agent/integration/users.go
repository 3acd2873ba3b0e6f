package integration

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"slipway.dev/slipway/internal/gitprovider"
	"slipway.dev/slipway/internal/secret"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/permission"
	"slipway.dev/slipway/internal/wire/runtimev1"
)

// maxTokenBytes is more than any provider's token has.
const maxTokenBytes = 8 << 10

// all reads every integration, by name.
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

// ListIntegrations implements IntegrationService. A user sees the state of the
// own token; an admin that of all.
func (s *Service) ListIntegrations(ctx context.Context, _ *connect.Request[runtimev1.ListIntegrationsRequest]) (*connect.Response[runtimev1.ListIntegrationsResponse], error) {
	claims, err := caller(ctx)
	if err != nil {
		return nil, err
	}
	if s.settings().GetProvider() != "" {
		if _, err := s.load(ctx, defaultName); err != nil {
			return nil, err
		}
	}
	records, err := s.all(ctx)
	if err != nil {
		return nil, err
	}
	answer := &runtimev1.ListIntegrationsResponse{}
	for _, one := range records {
		answer.Integrations = append(answer.Integrations, s.shown(ctx, one, claims))
	}
	return connect.NewResponse(answer), nil
}

// shown is an integration as the caller may see it.
func (s *Service) shown(ctx context.Context, r *record, claims wire.RuntimeClaims) *runtimev1.Integration {
	out := &runtimev1.Integration{Name: r.name, Provider: r.Provider, ApiUrl: r.APIURL, Sharing: r.Sharing}
	_, err := s.oauthApplication(ctx, gitprovider.Kind(r.Provider))
	out.Oauth = err == nil
	for _, user := range slices.Sorted(maps.Keys(r.users)) {
		if user == claims.UserID || claims.Role == permission.RoleAdmin {
			one := r.users[user]
			out.Users = append(out.Users, one.Status.shown(cmp.Or(one.Email, one.User)))
		}
	}
	return out
}

// shown is a status as it is answered.
func (e statusEntry) shown(user string) *runtimev1.TokenStatus {
	out := &runtimev1.TokenStatus{
		User: user, Login: e.Login, State: e.State, Message: e.Message, Kind: e.Kind, MissingScopes: e.Missing,
	}
	if !e.ExpiresAt.IsZero() {
		out.ExpiresAt = timestamppb.New(e.ExpiresAt)
	}
	if !e.CheckedAt.IsZero() {
		out.CheckedAt = timestamppb.New(e.CheckedAt)
	}
	return out
}

// statusOf is what a check of a token said.
func statusOf(report gitprovider.TokenReport, err error, now time.Time) statusEntry {
	out := statusEntry{
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

// AddIntegration implements IntegrationService. Adding the same again is no error
// (R82).
func (s *Service) AddIntegration(ctx context.Context, request *connect.Request[runtimev1.AddIntegrationRequest]) (*connect.Response[runtimev1.AddIntegrationResponse], error) {
	claims, err := admin(ctx)
	if err != nil {
		return nil, err
	}
	wanted, err := s.wanted(request.Msg.GetIntegration())
	if err != nil {
		return nil, err
	}
	stored, err := s.create(ctx, wanted)
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&runtimev1.AddIntegrationResponse{Integration: s.shown(ctx, stored, claims)}), nil
}

// wanted checks an integration that somebody asks for.
func (s *Service) wanted(given *runtimev1.Integration) (*record, error) {
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

// EditIntegration implements IntegrationService. Tokens are for one provider at
// one address: with another, they are forgotten, and never sent there.
func (s *Service) EditIntegration(ctx context.Context, request *connect.Request[runtimev1.EditIntegrationRequest]) (*connect.Response[runtimev1.EditIntegrationResponse], error) {
	claims, err := admin(ctx)
	if err != nil {
		return nil, err
	}
	wanted, err := s.wanted(request.Msg.GetIntegration())
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
		return nil, ownOr(err, func() error { return storeError("change the Secret", name, err) })
	}
	stored, err := s.load(ctx, wanted.name)
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&runtimev1.EditIntegrationResponse{Integration: s.shown(ctx, stored, claims)}), nil
}

// RemoveIntegration implements IntegrationService; the tokens go with it.
func (s *Service) RemoveIntegration(ctx context.Context, request *connect.Request[runtimev1.RemoveIntegrationRequest]) (*connect.Response[runtimev1.RemoveIntegrationResponse], error) {
	if _, err := admin(ctx); err != nil {
		return nil, err
	}
	stored, err := s.load(ctx, request.Msg.GetName())
	if err != nil {
		return nil, err
	}
	if err := s.secrets().Delete(ctx, secretPrefix+stored.name, metav1.DeleteOptions{}); err != nil {
		return nil, storeError("delete the Secret", secretPrefix+stored.name, err)
	}
	return connect.NewResponse(&runtimev1.RemoveIntegrationResponse{}), nil
}

// Register implements IntegrationService: it stores the token of the caller after
// its provider has said what it may (R17, R70).
func (s *Service) Register(ctx context.Context, request *connect.Request[runtimev1.RegisterRequest]) (*connect.Response[runtimev1.RegisterResponse], error) {
	claims, err := caller(ctx)
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
	status, err := s.register(ctx, r, claims, held{Token: secret.New(given), Username: request.Msg.GetUsername()})
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&runtimev1.RegisterResponse{Status: status}), nil
}

func (s *Service) register(ctx context.Context, r *record, claims wire.RuntimeClaims, clear held) (*runtimev1.TokenStatus, error) {
	switch {
	case r.Sharing == sharingAdmins && claims.Role != permission.RoleAdmin:
		return nil, connect.NewError(connect.CodePermissionDenied, errSharing)
	case len(r.users) >= maxUsers && r.users[claims.UserID].User == "":
		return nil, precondition("the integration %s has the tokens of %d users, which is the most: add another integration", r.name, maxUsers)
	}
	provider, err := s.provider(ctx, providerChoice{kind: gitprovider.Kind(r.Provider), apiURL: r.APIURL, clear: clear})
	if err != nil {
		return nil, answerError(err)
	}
	report, err := provider.Check(ctx, gitprovider.UserToken)
	if err != nil {
		return nil, answerError(err)
	}
	status := statusOf(report, nil, s.options.Now())
	if status.State != string(gitprovider.StateOK) {
		return nil, precondition("the token is not stored: %s", status.Message)
	}
	one := tokenEntry{User: claims.UserID, Email: claims.Email, Status: status}
	if err := s.putToken(ctx, r, one, clear); err != nil {
		return nil, answerError(err)
	}
	return status.shown(cmp.Or(one.Email, one.User)), nil
}

// Deregister implements IntegrationService: it forgets the token of the caller.
func (s *Service) Deregister(ctx context.Context, request *connect.Request[runtimev1.DeregisterRequest]) (*connect.Response[runtimev1.DeregisterResponse], error) {
	claims, err := caller(ctx)
	if err != nil {
		return nil, err
	}
	r, err := s.load(ctx, request.Msg.GetIntegration())
	if err != nil {
		return nil, err
	}
	if err := s.patchUser(ctx, r, claims.UserID, nil); err != nil {
		return nil, answerError(err)
	}
	return connect.NewResponse(&runtimev1.DeregisterResponse{}), nil
}

// UserToken is the token of a user for an integration, and its user name at the
// provider where that is needed. An OAuth token that is about to end is renewed.
func (s *Service) UserToken(ctx context.Context, integration, user string) (token secret.Text, username string, err error) {
	r, err := s.load(ctx, integration)
	if err != nil {
		return secret.Text{}, "", err
	}
	clear, err := s.openToken(ctx, r, user)
	if err != nil {
		return secret.Text{}, "", err
	}
	if s.due(clear) {
		if clear, err = s.renewUser(ctx, r, user, clear); err != nil {
			return secret.Text{}, "", answerError(err)
		}
	}
	return clear.Token, clear.Username, nil
}
