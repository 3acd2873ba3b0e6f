package webhook_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"slipway.dev/slipway/internal/gitops/webhook"
	"slipway.dev/slipway/internal/must"
)

const secret = "a secret that nobody guesses"

func hexMAC(key string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write(body)
	return hex.EncodeToString(mac.Sum(nil))
}

// sign gives a request what its host would give it.
func sign(header http.Header, key string, body []byte) http.Header {
	header = header.Clone()
	switch {
	case header.Get("X-Gitea-Event") != "" || header.Get("X-Forgejo-Event") != "":
		header.Set("X-Gitea-Signature", hexMAC(key, body))
	case header.Get("X-GitHub-Event") != "":
		header.Set("X-Hub-Signature-256", "sha256="+hexMAC(key, body))
	case header.Get("X-Gitlab-Event") != "":
		header.Set("X-Gitlab-Token", key)
	default:
		header.Set("X-Hub-Signature", "sha256="+hexMAC(key, body))
	}
	return header
}

// host is a handler on a real socket, and what it reported.
type host struct {
	*httptest.Server
	mutex    sync.Mutex
	pushes   []webhook.Push
	outcomes []webhook.Outcome
}

func start(t *testing.T, change func(*webhook.Handler)) *host {
	t.Helper()
	h := &host{}
	handler := &webhook.Handler{
		Secrets: func(webhook.Provider) []string { return []string{"", "an older secret", secret} },
		Notify: func(push webhook.Push) {
			h.mutex.Lock()
			defer h.mutex.Unlock()
			h.pushes = append(h.pushes, push)
		},
		Count: func(_ webhook.Provider, outcome webhook.Outcome) {
			h.mutex.Lock()
			defer h.mutex.Unlock()
			h.outcomes = append(h.outcomes, outcome)
		},
	}
	if change != nil {
		change(handler)
	}
	h.Server = httptest.NewServer(handler)
	t.Cleanup(h.Close)
	return h
}

// send returns the status and the text of the response.
func (h *host) send(t *testing.T, method string, header http.Header, body io.Reader) (int, string) {
	t.Helper()
	request := must.Get(http.NewRequestWithContext(t.Context(), method, h.URL, body))(t)
	request.Header = header
	answer := must.Get(h.Client().Do(request))(t)
	defer answer.Body.Close()
	text := must.Get(io.ReadAll(answer.Body))(t)
	if strings.Contains(string(text), secret) {
		t.Errorf("the answer has the secret: %s", text)
	}
	return answer.StatusCode, string(text)
}

// TestHandler sends each request of testdata signed, by another key, and not
// signed.
func TestHandler(t *testing.T) {
	for name, sent := range requests(t) {
		t.Run(name, func(t *testing.T) {
			h := start(t, nil)
			want, pushed := http.StatusOK, strings.Count(sent.want, "refs/")+strings.Count(sent.want, "pull request\n")
			switch {
			case strings.HasPrefix(sent.want, "error"):
				want, pushed = http.StatusBadRequest, 0
			case strings.Contains(sent.want, "ignored"):
				want = http.StatusAccepted
			}
			if got, text := h.send(t, http.MethodPost, sign(sent.header, secret, sent.body), bytes.NewReader(sent.body)); got != want {
				t.Errorf("signed: %d %s, want %d", got, text, want)
			}
			if len(h.pushes) != pushed {
				t.Errorf("%d pushes, want %d", len(h.pushes), pushed)
			}
			if name == "nobody" {
				return
			}
			h.pushes = nil
			if got, text := h.send(t, http.MethodPost, sign(sent.header, "another", sent.body), bytes.NewReader(sent.body)); got != http.StatusUnauthorized {
				t.Errorf("by another key: %d %s", got, text)
			}
			want = http.StatusUnauthorized
			if name == "bitbucket-server-ping" {
				want = http.StatusOK
			}
			if got, text := h.send(t, http.MethodPost, sent.header, bytes.NewReader(sent.body)); got != want {
				t.Errorf("not signed: %d %s", got, text)
			}
			if len(h.pushes) > 0 {
				t.Errorf("a request of nobody is %+v", h.pushes)
			}
		})
	}
}

// TestAuthentication: every way to be nearly right.
func TestAuthentication(t *testing.T) {
	sent := requests(t)["github-push"]
	gitea := requests(t)["gitea-push"]
	good := hexMAC(secret, sent.body)
	weak := hmac.New(sha1.New, []byte(secret))
	weak.Write(sent.body)
	with := func(header http.Header, pairs ...string) http.Header {
		header = header.Clone()
		for i := 0; i < len(pairs); i += 2 {
			header.Add(pairs[i], pairs[i+1])
		}
		return header
	}
	cloud := with(http.Header{}, "X-Event-Key", "repo:push", "X-Hook-UUID", "a")
	for _, test := range []struct {
		name     string
		provider webhook.Provider
		header   http.Header
		secrets  []string
		fits     bool
	}{
		{"the right key", webhook.GitHub, with(sent.header, "X-Hub-Signature-256", "sha256="+good), []string{secret}, true},
		{"one of two keys", webhook.GitHub, with(sent.header, "X-Hub-Signature-256", "sha256="+good), []string{"new", secret}, true},
		{"upper case", webhook.GitHub, with(sent.header, "X-Hub-Signature-256", "sha256="+strings.ToUpper(good)), []string{secret}, true},
		{"no key is set", webhook.GitHub, with(sent.header, "X-Hub-Signature-256", "sha256="+good), nil, false},
		{"an empty key is set", webhook.GitHub, with(sent.header, "X-Hub-Signature-256", "sha256="+hexMAC("", sent.body)), []string{""}, false},
		{"no signature", webhook.GitHub, sent.header, []string{secret}, false},
		{"an empty signature", webhook.GitHub, with(sent.header, "X-Hub-Signature-256", ""), []string{secret}, false},
		{"a signature of nothing", webhook.GitHub, with(sent.header, "X-Hub-Signature-256", "sha256="), []string{secret}, false},
		{"a part of the signature", webhook.GitHub, with(sent.header, "X-Hub-Signature-256", "sha256="+good[:32]), []string{secret}, false},
		{"no algorithm", webhook.GitHub, with(sent.header, "X-Hub-Signature-256", good), []string{secret}, false},
		{"SHA-1", webhook.GitHub, with(sent.header, "X-Hub-Signature", "sha1="+hex.EncodeToString(weak.Sum(nil))), []string{secret}, false},
		{"two signatures", webhook.GitHub, with(sent.header, "X-Hub-Signature-256", "sha256="+good, "X-Hub-Signature-256", "sha256="+good), []string{secret}, false},
		{"the header of GitHub from Gitea", webhook.Gitea, with(gitea.header, "X-Hub-Signature-256", "sha256="+good), []string{secret}, true},
		{"a wrong header of Gitea beside it", webhook.Gitea, with(gitea.header, "X-Gitea-Signature", hexMAC("x", sent.body), "X-Hub-Signature-256", "sha256="+good), []string{secret}, false},
		{"the token of GitLab", webhook.GitLab, with(http.Header{}, "X-Gitlab-Token", secret), []string{"new", secret}, true},
		{"another token of GitLab", webhook.GitLab, with(http.Header{}, "X-Gitlab-Token", secret+"x"), []string{secret}, false},
		{"an empty token of GitLab", webhook.GitLab, with(http.Header{}, "X-Gitlab-Token", ""), []string{""}, false},
		{"the identity of a webhook of Bitbucket", webhook.BitbucketCloud, cloud, []string{"a"}, false},
		{"a signature of Bitbucket", webhook.BitbucketCloud, with(cloud, "X-Hub-Signature", "sha256="+good), []string{secret}, true},
		{"a signature of Bitbucket Data Center", webhook.BitbucketServer, with(http.Header{}, "X-Hub-Signature", "sha256="+good), []string{secret}, true},
	} {
		if err := webhook.Authenticate(test.provider, test.header, sent.body, test.secrets); (err == nil) != test.fits {
			t.Errorf("%s: %v", test.name, err)
		}
	}
	changed := append([]byte(" "), sent.body...)
	if webhook.Authenticate(webhook.GitHub, with(sent.header, "X-Hub-Signature-256", "sha256="+good), changed, []string{secret}) == nil {
		t.Error("the signature is not over the body as it came")
	}
}

// TestHandlerRefuses: requests that are not worth reading.
func TestHandlerRefuses(t *testing.T) {
	sent := requests(t)["github-push"]
	signed := sign(sent.header, secret, sent.body)
	h := start(t, func(handler *webhook.Handler) {
		handler.MaxBytes = int64(len(sent.body))
		handler.Secrets = func(provider webhook.Provider) []string {
			if provider == webhook.GitHub {
				return []string{secret}
			}
			return nil
		}
	})
	large := append(sent.body, ' ')
	for _, test := range []struct {
		name    string
		method  string
		header  http.Header
		body    io.Reader
		want    int
		outcome webhook.Outcome
		text    string
	}{
		{"a body that just fits", "POST", signed, bytes.NewReader(sent.body), 200, webhook.OutcomePush, "refreshed"},
		{"GET", "GET", signed, nil, 405, webhook.OutcomeMalformed, "POST"},
		{"a body too large", "POST", sign(sent.header, secret, large), bytes.NewReader(large), 413, webhook.OutcomeTooLarge, "by the next poll"},
		{"a body too large that does not say so", "POST", sign(sent.header, secret, large), io.MultiReader(bytes.NewReader(large)), 413, webhook.OutcomeTooLarge, "more than"},
		{"a host without a secret", "POST", sign(requests(t)["gitlab-push"].header, secret, nil), strings.NewReader("{}"), 403, webhook.OutcomeUnauthenticated, "no secret is set for webhooks of GitLab"},
		{"nobody", "POST", http.Header{}, strings.NewReader("{}"), 400, webhook.OutcomeMalformed, "not from a Git host"},
		{"what nobody signed is not parsed", "POST", sign(sent.header, "x", []byte("{")), strings.NewReader("{"), 401, webhook.OutcomeUnauthenticated, "signature"},
		{"signed nonsense", "POST", sign(sent.header, secret, []byte("{")), strings.NewReader("{"), 400, webhook.OutcomeMalformed, "cannot be read"},
	} {
		h.outcomes = nil
		got, text := h.send(t, test.method, test.header, test.body)
		if got != test.want || !strings.Contains(text, test.text) || len(h.outcomes) != 1 || h.outcomes[0] != test.outcome {
			t.Errorf("%s: %d %s %v, want %d %s %s", test.name, got, text, h.outcomes, test.want, test.text, test.outcome)
		}
	}
}

// TestReplay: a request that is sent again is another look at Git, and no more.
func TestReplay(t *testing.T) {
	sent := requests(t)["gitea-push"]
	h := start(t, nil)
	for range 3 {
		if got, text := h.send(t, "POST", sign(sent.header, secret, sent.body), bytes.NewReader(sent.body)); got != 200 {
			t.Fatalf("%d %s", got, text)
		}
	}
	if len(h.pushes) != 3 || fmt.Sprint(h.pushes[0]) != fmt.Sprint(h.pushes[2]) {
		t.Errorf("%+v", h.pushes)
	}
}

// limited serves one request of a source without a socket.
func limited(handler *webhook.Handler, source string) *httptest.ResponseRecorder {
	recorder := httptest.NewRecorder()
	request := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("{}"))
	request.RemoteAddr = source
	handler.ServeHTTP(recorder, request)
	return recorder
}

// TestLimit: a source that sends too much waits, and others do not.
func TestLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handler := &webhook.Handler{Secrets: func(webhook.Provider) []string { return nil }, PerMinute: 60}
		for i := range 12 {
			if got := limited(handler, "192.0.2.1:1000").Code; got != 400 {
				t.Fatalf("request %d: %d", i, got)
			}
		}
		refused := limited(handler, "192.0.2.1:2000")
		if refused.Code != 429 || refused.Header().Get("Retry-After") != "1" {
			t.Errorf("%d, again after %q", refused.Code, refused.Header().Get("Retry-After"))
		}
		if got := limited(handler, "192.0.2.2:1000").Code; got != 400 {
			t.Errorf("another source: %d", got)
		}
		<-time.After(time.Second)
		if got := limited(handler, "192.0.2.1:1000").Code; got != 400 {
			t.Errorf("a second later: %d", got)
		}
		if got := limited(handler, "192.0.2.1:1000").Code; got != 429 {
			t.Errorf("the second request of that second: %d", got)
		}
		handler.Source = func(*http.Request) string { return "everybody" }
		if got := limited(handler, "192.0.2.1:1000").Code; got != 400 {
			t.Errorf("another way to tell sources apart: %d", got)
		}
	})
}

// TestLimitOfManySources: however many sources there are, memory is bounded, and
// the ones that are too many share one limit.
func TestLimitOfManySources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handler := &webhook.Handler{Secrets: func(webhook.Provider) []string { return nil }, PerMinute: 60}
		for i := range 4096 {
			limited(handler, fmt.Sprintf("source-%d", i))
		}
		refused := 0
		for i := range 100 {
			if limited(handler, fmt.Sprintf("more-%d", i)).Code == 429 {
				refused++
			}
		}
		if refused != 88 {
			t.Errorf("%d of 100 further sources are refused", refused)
		}
		<-time.After(time.Minute)
		if got := limited(handler, "more-1").Code; got != 400 {
			t.Errorf("once the others are forgotten: %d", got)
		}
	})
}

// TestInFlight: bodies that are not sent to their end do not pile up.
func TestInFlight(t *testing.T) {
	sent := requests(t)["github-push"]
	handler := &webhook.Handler{
		Secrets:   func(webhook.Provider) []string { return []string{secret} },
		Notify:    func(webhook.Push) {},
		PerMinute: 1e9,
	}
	post := func(body io.Reader) int {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", body)
		request.Header = sign(sent.header, secret, sent.body)
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, request)
		return recorder.Code
	}
	var writers []*io.PipeWriter
	var waiting sync.WaitGroup
	for range 16 {
		reader, writer := io.Pipe()
		writers = append(writers, writer)
		waiting.Go(func() { post(reader) })
		// A pipe's byte is taken by the handler itself: it is reading the body.
		must.Get(writer.Write([]byte("{")))(t)
	}
	if got := post(bytes.NewReader(sent.body)); got != http.StatusServiceUnavailable {
		t.Errorf("one more body: %d", got)
	}
	for _, writer := range writers {
		writer.Close()
	}
	waiting.Wait()
	if got := post(bytes.NewReader(sent.body)); got != http.StatusOK {
		t.Errorf("afterwards: %d", got)
	}
}

// deadlines notes those that are set for reading.
type deadlines struct {
	*httptest.ResponseRecorder
	set []time.Time
}

func (d *deadlines) SetReadDeadline(at time.Time) error {
	d.set = append(d.set, at)
	return nil
}

// TestReadDeadline: a body has ten seconds, and the next request of the
// connection has its own.
func TestReadDeadline(t *testing.T) {
	sent := requests(t)["github-push"]
	synctest.Test(t, func(t *testing.T) {
		handler := &webhook.Handler{Secrets: func(webhook.Provider) []string { return []string{secret} }, Notify: func(webhook.Push) {}}
		request := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(sent.body))
		request.Header = sign(sent.header, secret, sent.body)
		recorder := &deadlines{ResponseRecorder: httptest.NewRecorder()}
		handler.ServeHTTP(recorder, request)
		if recorder.Code != 200 || len(recorder.set) != 2 || time.Until(recorder.set[0]) != 10*time.Second || !recorder.set[1].IsZero() {
			t.Errorf("%d, deadlines %v", recorder.Code, recorder.set)
		}
	})
}
