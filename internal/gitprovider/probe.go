package gitprovider

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"time"

	"slipway.dev/slipway/internal/outbound"
)

// probeTimeout bounds each of the at most three requests of a probe.
const probeTimeout = 5 * time.Second

// Probe detects the provider of a self-hosted repository when [Infer] cannot.
// It sends up to three GET requests without a token to the repository's host,
// one at a time, and stops at the first response that a provider documents. The
// URL comes from a user: the policy decides which addresses are connected to, and
// nil allows all. authorities are PEM certificates beside the system's.
func Probe(ctx context.Context, repoURL string, policy *outbound.Policy, authorities []byte) (Kind, string, error) {
	// The names of clouds and of many servers need no request.
	if kind, api, ok := Infer(repoURL); ok {
		return kind, api, nil
	}
	address, err := ParseAddress(repoURL)
	if err != nil {
		return "", "", err
	}
	// Even without a token plain HTTP is rejected: the next step would send
	// one.
	if err := checkOrigin("", address.server(), false); err != nil {
		return "", "", err
	}
	client, err := newHTTP("", authorities, nil, policy)
	if err != nil {
		return "", "", err
	}
	// A redirect to a login page must not be followed to another host.
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	defer client.CloseIdleConnections()
	// One request at a time: the first match ends the probe.
	for _, fingerprint := range fingerprints() {
		found, err := fingerprint.matches(ctx, client, address.server())
		if err != nil {
			return "", "", networkError("", address.Host, err)
		}
		if found {
			// The API URL follows from the detected provider.
			api, err := DefaultAPI(fingerprint.kind, address.server())
			return fingerprint.kind, api, err
		}
	}
	return "", "", &Error{Kind: NotFound, Message: address.Host + " is none of GitHub Enterprise, GitLab and Bitbucket Server: set the provider and its API URL"}
}

// fingerprint is a documented response that identifies a provider.
type fingerprint struct {
	kind Kind
	path string
	// known evaluates status, headers and body of a response.
	known func(status int, header http.Header, body map[string]any) bool
}

// fingerprints returns the probes in order. The most specific one is first.
func fingerprints() []fingerprint {
	return []fingerprint{
		{GitLab, "/api/v4/version", func(status int, header http.Header, body map[string]any) bool {
			return header.Get("X-Gitlab-Meta") != "" || status == http.StatusUnauthorized && body["message"] == "401 Unauthorized"
		}},
		{GitHub, "/api/v3/meta", func(status int, header http.Header, body map[string]any) bool {
			_, installed := body["installed_version"]
			return installed || header.Get("X-GitHub-Enterprise-Version") != "" || header.Get("X-GitHub-Request-Id") != ""
		}},
		{BitbucketServer, bitbucketREST + "/application-properties", func(status int, header http.Header, body map[string]any) bool {
			_, build := body["buildNumber"]
			return status == http.StatusOK && build && body["displayName"] == "Bitbucket"
		}},
	}
}

// matches sends the probe and reports whether the response identifies the
// provider.
func (s fingerprint) matches(ctx context.Context, client *http.Client, server string) (bool, error) {
	// Each probe has its own timeout: a server that ignores one path may
	// respond to the next.
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, server+s.path, nil)
	if err != nil {
		return false, err
	}
	request.Header.Set("Accept", "application/json")
	request.Header.Set("User-Agent", "slipway")
	response, err := client.Do(request)
	if err != nil {
		return false, err
	}
	defer response.Body.Close()
	var body map[string]any
	// A body that is not JSON belongs to another kind of server and does not
	// match.
	_ = json.NewDecoder(io.LimitReader(response.Body, 64<<10)).Decode(&body)
	return s.known(response.StatusCode, response.Header, body), nil
}
