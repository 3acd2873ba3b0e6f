package gitprovider

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"time"
)

// ProbeOptions say how to reach a server.
type ProbeOptions struct {
	CAs       []byte
	Proxy     func(*http.Request) (*url.URL, error)
	PlainHTTP bool
	Timeout   time.Duration // of each of at most three requests; 0: 10 s
}

// Probe finds out which provider a repository in house belongs to, when
// [Infer] cannot say. It sends three GET requests without a token to the
// repository's own host, one at a time, and stops at the first that answers as
// a provider documents. The address is the user's, so whoever calls this from a
// server decides first whether its network may be asked.
func Probe(ctx context.Context, repoURL string, options ProbeOptions) (Kind, string, error) {
	if kind, api, ok := Infer(repoURL); ok {
		return kind, api, nil
	}
	address, err := ParseAddress(repoURL)
	if err != nil {
		return "", "", err
	}
	if err := checkOrigin("", address.server(), options.PlainHTTP); err != nil {
		return "", "", err
	}
	client, err := newHTTP("", options.CAs, options.Proxy)
	if err != nil {
		return "", "", err
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	defer client.CloseIdleConnections()
	if options.Timeout <= 0 {
		options.Timeout = 10 * time.Second
	}
	for _, sign := range signs() {
		found, err := sign.shown(ctx, client, address.server(), options.Timeout)
		if err != nil {
			return "", "", networkError("", address.Host, err)
		}
		if found {
			api, err := DefaultAPI(sign.kind, address.server())
			return sign.kind, api, err
		}
	}
	return "", "", &Error{Kind: NotFound, Message: address.Host + " answers as none of GitHub Enterprise, GitLab and Bitbucket Server: give the provider and its API URL"}
}

// sign is a documented answer by which a provider is known.
type sign struct {
	kind Kind
	path string
	// known judges an answer by status, headers and body.
	known func(status int, header http.Header, body map[string]any) bool
}

func signs() []sign {
	return []sign{
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

func (s sign) shown(ctx context.Context, client *http.Client, server string, timeout time.Duration) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
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
	// A page that is no JSON is an answer too: of another server.
	_ = json.NewDecoder(io.LimitReader(response.Body, 64<<10)).Decode(&body)
	return s.known(response.StatusCode, response.Header, body), nil
}
