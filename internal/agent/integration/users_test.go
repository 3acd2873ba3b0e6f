package integration_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"connectrpc.com/connect"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/gitprovider/providertest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/wire/runtimev1"
)

func register(token string) *connect.Request[runtimev1.RegisterRequest] {
	return connect.NewRequest(&runtimev1.RegisterRequest{Token: token})
}

// TestRegister: a user's token is checked at the provider, stored for that user
// only, and forgotten when the user removes it. A user sees the own one, an admin
// that there are others. (R8, R17, R70)
func TestRegister(t *testing.T) {
	w := newWorld(t)
	w.trust(t)
	answer := must.Get(w.user("ada").Register(t.Context(), register(adaToken)))(t)
	if status := answer.Msg.GetStatus(); status.GetLogin() != "ada" || status.GetState() != "ok" || status.GetUser() != "ada@example.com" || status.GetKind() != "classic" {
		t.Errorf("the status is %v", status)
	}
	must.Get(w.user("bob").Register(t.Context(), register(bobToken)))(t)
	for name, count := range map[string]int{"ada": 1, "admin": 2} {
		client := w.user(name)
		if name == "admin" {
			client = w.admin()
		}
		list := must.Get(client.ListIntegrations(t.Context(), connect.NewRequest(&runtimev1.ListIntegrationsRequest{})))(t)
		if all := list.Msg.GetIntegrations(); len(all) != 1 || all[0].GetName() != "default" || all[0].GetApiUrl() != w.provider.APIURL || len(all[0].GetUsers()) != count {
			t.Errorf("%s sees %v", name, all)
		}
	}
	token, _, err := w.service.UserToken(t.Context(), "", "ada")
	if err != nil || token.Reveal() != adaToken {
		t.Errorf("the token of ada is another one: %v", err)
	}
	must.Get(w.user("ada").Deregister(t.Context(), connect.NewRequest(&runtimev1.DeregisterRequest{})))(t)
	_, _, err = w.service.UserToken(t.Context(), "", "ada")
	refused(t, err, connect.CodeFailedPrecondition, "slipway integration git register default --runtime demo --token-file FILE")
	if token, _, err = w.service.UserToken(t.Context(), "", "bob"); err != nil || token.Reveal() != bobToken {
		t.Errorf("the token of bob is another one: %v", err)
	}
}

// TestRegisterRefuses: tokens that lack a scope, which is named, or that the
// provider does not know are not stored; nor is one of a request without a user.
func TestRegisterRefuses(t *testing.T) {
	w := newWorld(t)
	w.trust(t)
	_, err := w.user("eve").Register(t.Context(), register(weakToken))
	refused(t, err, connect.CodeFailedPrecondition, "missing repo")
	_, err = w.user("eve").Register(t.Context(), register("ghp_nobody"))
	refused(t, err, connect.CodeFailedPrecondition)
	_, err = w.user("eve").Register(t.Context(), register("  "))
	refused(t, err, connect.CodeInvalidArgument)
	_, err = w.as("", "admin").Register(t.Context(), register(adaToken))
	refused(t, err, connect.CodeUnauthenticated)
	w.provider.Respond(providertest.Canned{Status: 500}, providertest.Canned{Status: 500}, providertest.Canned{Status: 500})
	_, err = w.user("eve").Register(t.Context(), register(adaToken))
	refused(t, err, connect.CodeUnavailable)
	if found := w.secret(t, "slipway-git-default"); len(found.Data) != 1 {
		t.Errorf("something is stored: %v", found.Data)
	}
}

// TestConcurrentRegistrations: twenty users register at once, with no key and no
// integration yet; all of them are there afterwards.
func TestConcurrentRegistrations(t *testing.T) {
	const users = 20
	w := newWorld(t)
	w.trust(t)
	var all sync.WaitGroup
	failed := make(chan error, users)
	for number := range users {
		name := fmt.Sprintf("user%d", number)
		w.provider.SetToken(providertest.Token{Value: "ghp_" + name, Login: name, Scopes: []string{"repo"}, Roles: map[string]string{"team": "write"}})
		all.Go(func() {
			_, err := w.user(name).Register(t.Context(), register("ghp_"+name))
			failed <- err
		})
	}
	all.Wait()
	close(failed)
	for err := range failed {
		if err != nil {
			t.Error(err)
		}
	}
	for number := range users {
		name := fmt.Sprintf("user%d", number)
		if token, _, err := w.service.UserToken(t.Context(), "default", name); err != nil || token.Reveal() != "ghp_"+name {
			t.Errorf("%s has another token: %v", name, err)
		}
	}
}

// TestSwappedEntries: what is stored for a user is of no use at another user's
// place, nor after the integration is for another provider.
func TestSwappedEntries(t *testing.T) {
	w := newWorld(t)
	w.trust(t)
	for user, token := range map[string]string{"ada": adaToken, "bob": bobToken} {
		must.Get(w.user(user).Register(t.Context(), register(token)))(t)
	}
	stored := w.secret(t, "slipway-git-default")
	var fields []string
	entries := map[string]map[string]any{}
	for field, text := range stored.Data {
		if bytes.Contains(text, []byte("canary0")) {
			t.Errorf("the token is readable in %s", field)
		}
		if !strings.HasPrefix(field, "user.") {
			continue
		}
		fields = append(fields, field)
		var entry map[string]any
		must.Do(t, json.Unmarshal(text, &entry))
		entries[field] = entry
	}
	one, other := fields[0], fields[1]
	entries[one]["sealed"], entries[other]["sealed"] = entries[other]["sealed"], entries[one]["sealed"]
	for field, entry := range entries {
		stored.Data[field], _ = json.Marshal(entry)
	}
	stored = must.Get(w.Client.CoreV1().Secrets(w.namespace).Update(t.Context(), stored, metav1.UpdateOptions{}))(t)
	for _, user := range []string{"ada", "bob"} {
		if _, _, err := w.service.UserToken(t.Context(), "", user); err == nil || !strings.Contains(err.Error(), "not of this user") {
			t.Errorf("the token at the place of %s: %v", user, err)
		}
	}
	// Whole entries at each other's places are valid for no user.
	stored.Data[one], stored.Data[other] = stored.Data[other], stored.Data[one]
	must.Get(w.Client.CoreV1().Secrets(w.namespace).Update(t.Context(), stored, metav1.UpdateOptions{}))(t)
	for _, user := range []string{"ada", "bob"} {
		if _, _, err := w.service.UserToken(t.Context(), "", user); err == nil {
			t.Errorf("%s has a token", user)
		}
	}
}

// TestEditIntegration: tokens are forgotten when the address changes, and never
// sent to the new one. Only admins may. Adding the same again is no error (R82);
// one with other settings is. Sharing for admins shuts out users.
func TestEditIntegration(t *testing.T) {
	w := newWorld(t)
	w.trust(t)
	must.Get(w.user("ada").Register(t.Context(), register(adaToken)))(t)
	add := func(one *runtimev1.Integration) error {
		_, err := w.admin().AddIntegration(t.Context(), connect.NewRequest(&runtimev1.AddIntegrationRequest{Integration: one}))
		return err
	}
	if err := add(&runtimev1.Integration{Name: "default", ApiUrl: w.provider.APIURL}); err != nil {
		t.Errorf("adding the same: %v", err)
	}
	refused(t, add(&runtimev1.Integration{Name: "default", ApiUrl: "https://other.example.com/api/v3"}), connect.CodeAlreadyExists, "edit it")
	refused(t, add(&runtimev1.Integration{Name: "runtime"}), connect.CodeInvalidArgument)
	refused(t, add(&runtimev1.Integration{Name: "x", Sharing: "everybody"}), connect.CodeInvalidArgument, "all-users")
	change := connect.NewRequest(&runtimev1.EditIntegrationRequest{Integration: &runtimev1.Integration{ApiUrl: "https://other.example.com", Sharing: "admins"}})
	_, err := w.user("ada").EditIntegration(t.Context(), change)
	refused(t, err, connect.CodePermissionDenied)
	answer := must.Get(w.admin().EditIntegration(t.Context(), change))(t)
	if one := answer.Msg.GetIntegration(); one.GetApiUrl() != "https://other.example.com/api/v3" || len(one.GetUsers()) != 0 {
		t.Errorf("the integration is %v", one)
	}
	_, err = w.user("ada").Register(t.Context(), register(adaToken))
	refused(t, err, connect.CodePermissionDenied, "admins")
	// The settings of the account would bring it back.
	_, err = w.admin().RemoveIntegration(t.Context(), connect.NewRequest(&runtimev1.RemoveIntegrationRequest{Name: "default"}))
	refused(t, err, connect.CodeFailedPrecondition, "slipway account git set")
}
