package identity_test

import (
	"bytes"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"slipway.dev/slipway/internal/platform/identity"
	"slipway.dev/slipway/internal/platform/store"
)

// Replicas that start at the same time make one account and one admin.
func TestBootstrapAtOnce(t *testing.T) {
	t.Parallel()
	database, err := store.Open(t.Context(), store.Options{URL: "sqlite://" + filepath.Join(t.TempDir(), "platform.db")})
	must(t, err)
	defer func() { _ = database.Close() }()
	var made atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			password, created, err := identity.Bootstrap(t.Context(), database, "Example", adminEmail, identity.SignInPolicy{})
			if err != nil || created == password.IsZero() {
				t.Errorf("created %v, with a password %v: %v", created, !password.IsZero(), err)
			}
			if created {
				made.Add(1)
			}
		})
	}
	all.Wait()
	accounts, err := database.Accounts(t.Context())
	must(t, err)
	if made.Load() != 1 || len(accounts) != 1 {
		t.Errorf("%d admins and %d accounts were made", made.Load(), len(accounts))
	}
}

// An account without users, left by a start that was cut short, gets its admin.
func TestBootstrapAgain(t *testing.T) {
	t.Parallel()
	database, err := store.Open(t.Context(), store.Options{URL: "sqlite://" + filepath.Join(t.TempDir(), "platform.db")})
	must(t, err)
	defer func() { _ = database.Close() }()
	account, err := database.CreateAccount(t.Context(), store.Account{Name: "Example"})
	must(t, err)
	for _, email := range []string{"", "not an email"} {
		if _, _, err := identity.Bootstrap(t.Context(), database, "Example", email, identity.SignInPolicy{}); err == nil {
			t.Errorf("the email %q was taken", email)
		}
	}
	_, created, err := identity.Bootstrap(t.Context(), database, "Example", adminEmail, identity.SignInPolicy{})
	must(t, err)
	user, err := database.UserByEmail(t.Context(), adminEmail)
	must(t, err)
	if !created || user.AccountID != account.ID || user.Role != store.RoleAdmin || !user.MustChangePassword {
		t.Errorf("created %v: %+v", created, user)
	}
}

// Callers are judged before their message is read, and messages have a bound.
func TestJudgedBeforeParsing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key := w.admin().key("ci", 0).GetSecret()
	const users, auth = "/slipway.platform.v1.AccountService/ListUsers", "/slipway.platform.v1.AuthService/SignIn"
	for _, tt := range []struct {
		name, path, key, body string
		status                int
		says                  string
	}{
		{"nobody, nonsense", users, "", "{nonsense", http.StatusUnauthorized, "unauthenticated"},
		{"nobody, much", users, "", strings.Repeat("x", 1<<20), http.StatusUnauthorized, "unauthenticated"},
		{"a caller, nonsense", users, key, "{nonsense", http.StatusBadRequest, "invalid_argument"},
		{"a caller, much", users, key, `{"pageToken":"` + strings.Repeat("x", 1<<20) + `"}`, http.StatusTooManyRequests, "resource_exhausted"},
		{"a public procedure, much", auth, "", `{"email":"` + strings.Repeat("x", 1<<20) + `"}`, http.StatusTooManyRequests, "resource_exhausted"},
		{"good", users, key, "{}", http.StatusOK, adminEmail},
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.url+tt.path, strings.NewReader(tt.body))
		must(t, err)
		request.Header.Set("Content-Type", "application/json")
		if tt.key != "" {
			request.Header.Set("Authorization", "Bearer "+tt.key)
		}
		response, err := http.DefaultClient.Do(request)
		must(t, err)
		var body bytes.Buffer
		_, err = body.ReadFrom(response.Body)
		must(t, err)
		_ = response.Body.Close()
		if response.StatusCode != tt.status || !strings.Contains(body.String(), tt.says) {
			t.Errorf("%s: %d %.200s, want %d and %s", tt.name, response.StatusCode, body.String(), tt.status, tt.says)
		}
	}
}
