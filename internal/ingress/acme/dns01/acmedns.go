package dns01

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"

	"slipway.dev/slipway/internal/secret"
)

const (
	// apiTimeout bounds one request to acme-dns.
	apiTimeout = 15 * time.Second
	// maxReply bounds the part of a response that is read.
	maxReply = 1 << 12
)

// AcmeDNS writes records through the HTTP API of acme-dns, a name server for
// challenges alone. Its accounts can change one record each, so that a lost
// credential is worth one domain.
type AcmeDNS struct {
	// API is the URL of the server.
	API string
	// AccountsFile has the account of each domain, in the form that acme-dns-client,
	// lego and cert-manager share.
	AccountsFile string
}

// account is the registration of a domain at acme-dns.
type account struct {
	fullDomain, subdomain string
	user                  string
	password              secret.Text
}

// Validate implements Provider.
func (p *AcmeDNS) Validate() error {
	_, err := p.accounts()
	return err
}

// accounts reads the accounts, by domain.
func (p *AcmeDNS) accounts() (map[string]account, error) {
	text, err := readCredentials(p.AccountsFile)
	if err != nil {
		return nil, err
	}
	accounts, err := parseAccounts(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.AccountsFile, err)
	}
	return accounts, nil
}

// parseAccounts parses a file of accounts. Its errors do not quote values.
func parseAccounts(text []byte) (map[string]account, error) {
	var written map[string]struct {
		FullDomain, Subdomain, Username, Password string
	}
	if err := json.Unmarshal(text, &written); err != nil || len(written) == 0 {
		return nil, errors.New("it has no accounts: write a JSON object with each domain as key, and the response of acme-dns to its registration as value")
	}
	accounts := map[string]account{}
	for _, domain := range slices.Sorted(maps.Keys(written)) {
		one := written[domain]
		if one.FullDomain == "" || one.Subdomain == "" || one.Username == "" || one.Password == "" {
			return nil, fmt.Errorf("the account of %q is incomplete: it needs fulldomain, subdomain, username and password", domain)
		}
		accounts[strings.ToLower(domain)] = account{
			fullDomain: dns.CanonicalName(one.FullDomain), subdomain: one.Subdomain, user: one.Username, password: secret.New(one.Password),
		}
	}
	return accounts, nil
}

// Add implements Provider. acme-dns keeps the last two values of a name, which are
// enough for a domain and its wildcard.
func (p *AcmeDNS) Add(ctx context.Context, record Record) error {
	accounts, err := p.accounts()
	if err != nil {
		return err
	}
	known, found := accounts[record.Domain]
	if !found {
		return fmt.Errorf("%s has no account for %s: register one with POST %s/register and add it", p.AccountsFile, record.Domain, p.API)
	}
	if known.fullDomain != record.Name {
		return fmt.Errorf("create the DNS record _acme-challenge.%s. CNAME %s: challenges of the domain lead to %s", record.Domain, known.fullDomain, record.Name)
	}
	return p.post(ctx, known, record.Value)
}

// Remove implements Provider. acme-dns cannot delete: the next value replaces an old
// one.
func (p *AcmeDNS) Remove(context.Context, Record) error { return nil }

// post sends one value.
func (p *AcmeDNS) post(ctx context.Context, known account, value string) error {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	body, err := json.Marshal(map[string]string{"subdomain": known.subdomain, "txt": value})
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(p.API, "/")+"/update", bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("X-Api-User", known.user)
	request.Header.Set("X-Api-Key", known.password.Reveal())
	// A redirect would carry the key to another server.
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("update at acme-dns: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	reply, err := io.ReadAll(io.LimitReader(response.Body, maxReply))
	if err != nil || response.StatusCode == http.StatusOK {
		return err
	}
	return fmt.Errorf("update at acme-dns: HTTP status %d (%s): check the account of the domain", response.StatusCode, reasonOf(reply))
}

// reasonOf returns the error in a response of acme-dns.
func reasonOf(reply []byte) string {
	var known struct{ Error string }
	if json.Unmarshal(reply, &known) != nil || known.Error == "" {
		return "without a reason"
	}
	return known.Error
}
