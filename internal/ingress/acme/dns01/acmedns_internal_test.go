package dns01

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/must"
)

// accountsText is the account of one domain, as acme-dns gives it.
const accountsText = `{"Example.org": {"username": "user", "password": "hidden-password", "fulldomain": "d420.auth.example.org",
	"subdomain": "d420", "allowfrom": [], "server_url": "https://auth.example.org"}}`

// apiServer is the update of acme-dns's HTTP API, as its README documents it.
type apiServer struct {
	*httptest.Server
	status  int
	updates []string
}

func startAPI(t *testing.T) *apiServer {
	t.Helper()
	s := &apiServer{status: http.StatusOK}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct{ Subdomain, TXT string }
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		s.updates = append(s.updates, strings.Join([]string{r.Method, r.URL.Path, r.Header.Get("X-Api-User"), r.Header.Get("X-Api-Key"), body.Subdomain, body.TXT}, " "))
		if s.status == http.StatusFound {
			w.Header().Set("Location", s.URL+"/elsewhere")
		}
		w.WriteHeader(s.status)
		fmt.Fprint(w, `{"error": "forbidden"}`)
	}))
	t.Cleanup(s.Close)
	return s
}

// TestAcmeDNS: the account of the domain is used, and every other outcome is an error
// that names the fix.
func TestAcmeDNS(t *testing.T) {
	good := Record{Domain: "example.org", Name: "d420.auth.example.org.", Value: "v"}
	const sent = "POST /update user hidden-password d420 v"
	for _, c := range []struct {
		name   string
		record Record
		status int
		sent   string
		words  []string
	}{
		{"good", good, http.StatusOK, sent, nil},
		{"no account", Record{Domain: "example.net", Name: "x."}, http.StatusOK, "", []string{"has no account for example.net", "/register"}},
		{"no delegation", Record{Domain: "example.org", Name: "_acme-challenge.example.org."}, http.StatusOK, "",
			[]string{"create the DNS record _acme-challenge.example.org. CNAME d420.auth.example.org."}},
		{"wrong key", good, http.StatusUnauthorized, sent, []string{"HTTP status 401 (forbidden)"}},
		{"redirect", good, http.StatusFound, sent, []string{"HTTP status 302"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := startAPI(t)
			server.status = c.status
			provider := &AcmeDNS{API: server.URL + "/", AccountsFile: file(t, accountsText)}
			must.Do(t, provider.Validate())
			err := provider.Add(t.Context(), c.record)
			if len(c.words) > 0 {
				wantError(t, err, c.words...)
			} else if err != nil {
				t.Error(err)
			}
			if got := strings.Join(server.updates, "\n"); got != c.sent {
				t.Errorf("sent %q", got)
			}
		})
	}
}

// TestAccounts: a file without usable accounts is found at the start.
func TestAccounts(t *testing.T) {
	for text, word := range map[string]string{
		"":     "it has no accounts",
		"{}":   "it has no accounts",
		"[1]":  "it has no accounts",
		"null": "it has no accounts",
		strings.Replace(accountsText, "hidden-password", "", 1):       `the account of "Example.org" is incomplete`,
		strings.Replace(accountsText, `"user"`, `""`, 1):              `the account of "Example.org" is incomplete`,
		strings.Replace(accountsText, `"d420"`, `""`, 1):              `the account of "Example.org" is incomplete`,
		strings.Replace(accountsText, "d420.auth.example.org", "", 1): `the account of "Example.org" is incomplete`,
	} {
		wantError(t, (&AcmeDNS{AccountsFile: file(t, text)}).Validate(), word)
	}
	wantError(t, (&AcmeDNS{AccountsFile: "missing"}).Validate(), "missing")
}

// FuzzAccounts: no file makes the parser panic, and what it accepts is complete and
// does not print its password.
func FuzzAccounts(f *testing.F) {
	f.Add([]byte(accountsText))
	f.Add([]byte(`{"": null}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		accounts, err := parseAccounts(text)
		if (err == nil) != (len(accounts) > 0) {
			t.Fatalf("%d accounts, %v", len(accounts), err)
		}
		for domain, known := range accounts {
			if known.subdomain == "" || known.password.IsZero() || strings.ToLower(domain) != domain || !strings.HasSuffix(known.fullDomain, ".") {
				t.Fatalf("%q: %+v", domain, known)
			}
		}
	})
}
