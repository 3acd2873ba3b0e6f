package service_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"slipway.dev/slipway/internal/gitops/notify/service"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/outbound"
)

// server records requests, and responds as a test describes it.
type server struct {
	*httptest.Server
	mu   sync.Mutex
	seen []string
	// responses are by method and path.
	responses map[string]string
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{responses: map[string]string{}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		credential := r.Header.Get("Authorization")
		if strings.HasPrefix(credential, "Bearer ey") {
			credential = "signed"
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.seen = append(s.seen, strings.Join([]string{r.Method, r.URL.RequestURI(), credential, string(body)}, " "))
		_, _ = io.WriteString(w, s.responses[r.Method+" "+r.URL.Path])
	}))
	t.Cleanup(s.Close)
	return s
}

// clients may connect to loopback.
func clients() *service.Clients { return service.NewClients(outbound.New(outbound.Loopback()...)) }

// message is one with a section.
func message(recipient, section string) service.Message {
	m := service.Message{Service: "mine", Recipient: recipient, Text: "shop runs", Template: "app-deployed", Key: "k1", At: time.Unix(1767261630, 0).UTC()}
	if section != "" {
		m.Section = json.RawMessage(section)
	}
	return m
}

// privateKey is one of a GitHub App, as YAML.
func privateKey(t *testing.T) string {
	t.Helper()
	key := must.Get(rsa.GenerateKey(rand.Reader, 2048))(t)
	return string(must.Get(json.Marshal(string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))))(t))
}

// apiResponses are those of the services to the requests of TestServices, by method and
// path. The lists of a Git host have what belongs to others.
func apiResponses() map[string]string {
	return map[string]string{
		"POST /chat.postMessage": `{"ok":true,"channel":"C1","ts":"1.1"}`, "POST /chat.update": `{"ok":true}`, "POST /connector": "1",
		"POST /api/v3/app/installations/2/access_tokens":          `{"token":"t1","expires_at":"2999-01-01T00:00:00Z"}`,
		"GET /api/v3/repos/team/shop/commits/abcdef0123/statuses": `[{"context":"ci","state":"success"},{"context":"cd","state":"pending"}]`,
		"GET /api/v3/repos/team/shop/deployments/7/statuses":      `[]`,
		"GET /api/v3/repos/team/shop/deployments":                 `[]`, "POST /api/v3/repos/team/shop/deployments": `{"id":7}`,
		"GET /api/v3/repos/team/shop/commits/abcdef0123/pulls":                        `[{"number":3}]`,
		"GET /api/v3/repos/team/shop/issues/3/comments":                               `[{"id":9,"body":"old\n<!-- argocd-notifications sync -->"}]`,
		"GET /api/v4/projects/group/team/shop/repository/commits/abcdef0123/statuses": `[]`, "GET /api/v4/projects/group/team/shop/repository/commits/abcdef0123/merge_requests": `[{"iid":4}]`,
		"GET /api/v4/projects/group/team/shop/merge_requests/4/notes": `[]`, "GET /api/v4/projects/group/team/shop/deployments": `[]`,
	}
}

// TestServices: each service sends the requests that its API documents.
func TestServices(t *testing.T) {
	s := newServer(t)
	host := strings.TrimPrefix(s.URL, "http://")
	s.responses = apiResponses()
	commit := `"revisionPath":"abcdef0123"`
	for _, one := range []struct {
		kind, options, recipient, section string
		want                              []string
	}{
		{"webhook", "url: @URL/base\nheaders: [{name: X-Team, value: a}]\nbasicAuth: {username: u, password: p}", "", `{"method":"PUT","path":"/p?x=1","body":"b"}`,
			[]string{"PUT /base/p?x=1 Basic dTpw b"}},
		{"webhook", "url: @URL", "", "", []string{"GET /  shop runs"}},
		{"slack", "token: t\napiURL: @URL\nicon: ':x:'\ndisableUnfurl: true", "ops", `{"attachments":"[{}]","groupingKey":"g"}`,
			[]string{`POST /chat.postMessage Bearer t {"channel":"ops","text":"shop runs","icon_emoji":":x:","attachments":[{}],"unfurl_links":false,"unfurl_media":false}`}},
		{"mattermost", "token: t\napiURL: @URL", "c1", `{"attachments":"[{\"a\":1}]"}`,
			[]string{`POST /api/v4/posts Bearer t {"channel_id":"c1","message":"shop runs","pending_post_id":"k1","props":{"attachments":[{"a":1}]}}`}},
		{"telegram", "token: '1:x'\napiURL: @URL", "-100|5", "", []string{`POST /bot1:x/sendMessage  {"chat_id":-100,"message_thread_id":5,"parse_mode":"Markdown","text":"shop runs"}`}},
		{"telegram", "token: '1:x'\napiURL: @URL", "news", "", []string{`POST /bot1:x/sendMessage  {"chat_id":"@news","parse_mode":"Markdown","text":"shop runs"}`}},
		{"googlechat", "webhooks: {room: '@URL/room?key=s'}", "room", `{"threadKey":"t","cardsV2":"- header: {title: shop}"}`,
			[]string{`POST /room?key=s&messageReplyOption=REPLY_MESSAGE_FALLBACK_TO_NEW_THREAD&requestId=k1&threadKey=t  {"cardsV2":[{"card":{"header":{"title":"shop"}},"cardId":"k1-0"}]}`}},
		{"pagerdutyv2", "serviceKeys: {svc: key}\napiURL: @URL", "svc", `{"summary":"s","severity":"info","source":"x","group":"g"}`,
			[]string{`POST /v2/enqueue  {"client":"Slipway","dedup_key":"k1","event_action":"trigger","payload":{"group":"g","severity":"info","source":"x","summary":"s"},"routing_key":"key"}`}},
		{"opsgenie", "apiUrl: @URL\napiKeys: {team: key}", "team", `{"description":"d","priority":"P1"}`,
			[]string{`POST /v2/alerts GenieKey key {"message":"shop runs","source":"Slipway","responders":[{"id":"team","type":"team"}],"description":"d","priority":"P1","alias":"k1"}`}},
		{"alertmanager", "targets: ['@HOST']\nbearerToken: t", "", `{"labels":{"app":"shop"},"generatorURL":"git@git.example.com:team/shop.git"}`,
			[]string{`POST /api/v2/alerts Bearer t [{"labels":{"alertname":"app-deployed","app":"shop"},"generatorURL":"https://git.example.com/team/shop.git","startsAt":"2026-01-01T10:00:30Z"}]`}},
		{"teams", "recipientUrls: {ops: @URL/connector}", "ops", `{"title":"t","facts":"[{\"name\":\"a\",\"value\":1}]"}`,
			[]string{`POST /connector  {"@type":"MessageCard","context":"https://schema.org/extensions","sections":[{"facts":[{"name":"a","value":1}]}],"summary":"","text":"shop runs","title":"t"}`}},
		{"teams-workflows", "recipientUrls: {ops: @URL/flow}", "ops", `{"title":"t","facts":"[{\"name\":\"a\",\"value\":1}]","potentialAction":"[{\"@type\":\"OpenUri\",\"name\":\"Open\",\"targets\":[{\"uri\":\"https://x\"}]}]"}`,
			[]string{`POST /flow  {"attachments":[{"content":{"actions":[{"title":"Open","type":"Action.OpenUrl","url":"https://x"}],"body":[{"size":"Large","text":"t","type":"TextBlock","weight":"Bolder","wrap":true},{"text":"shop runs","type":"TextBlock","wrap":true},{"facts":[{"title":"a","value":"1"}],"type":"FactSet"}],"type":"AdaptiveCard","version":"1.4"},"contentType":"application/vnd.microsoft.card.adaptive"}],"type":"message"}`}},
		{"github", "appID: 1\ninstallationID: '2'\nenterpriseBaseURL: @URL\nprivateKey: @KEY", "",
			`{"repoURLPath":"git@127.0.0.1:team/shop.git",` + commit + `,"status":{"state":"success","label":"cd"},"deployment":{"state":"success","environment":"prod"},"pullRequestComment":{"content":"new","commentTag":"sync"}}`,
			[]string{
				"POST /api/v3/app/installations/2/access_tokens signed {}",
				"GET /api/v3/repos/team/shop/commits/abcdef0123/statuses?page=1&per_page=100 Bearer t1 ",
				`POST /api/v3/repos/team/shop/statuses/abcdef0123 Bearer t1 {"context":"cd","description":"shop runs","state":"success","target_url":""}`,
				"GET /api/v3/repos/team/shop/deployments?environment=prod&page=1&per_page=100&sha=abcdef0123 Bearer t1 ",
				`POST /api/v3/repos/team/shop/deployments Bearer t1 {"auto_merge":true,"environment":"prod","ref":"abcdef0123","transient_environment":false}`,
				"GET /api/v3/repos/team/shop/deployments/7/statuses?page=1&per_page=100 Bearer t1 ",
				`POST /api/v3/repos/team/shop/deployments/7/statuses Bearer t1 {"description":"shop runs","environment":"prod","environment_url":"","log_url":"","state":"success"}`,
				"GET /api/v3/repos/team/shop/commits/abcdef0123/pulls Bearer t1 ",
				"GET /api/v3/repos/team/shop/issues/3/comments?page=1&per_page=100 Bearer t1 ",
				`PATCH /api/v3/repos/team/shop/issues/comments/9 Bearer t1 {"body":"new\n\u003c!-- argocd-notifications sync --\u003e"}`,
			}},
		{"gitlab", "token: t\nbaseURL: @URL", "",
			`{"repoURLPath":"http://127.0.0.1/group/team/shop.git",` + commit + `,"status":{"state":"success","label":"cd"},"deployment":{"state":"success","environment":"prod"},"pullRequestComment":{"content":"new"}}`,
			[]string{
				"GET /api/v4/projects/group%2Fteam%2Fshop/repository/commits/abcdef0123/statuses?name=cd&page=1&per_page=100 Bearer t ",
				`POST /api/v4/projects/group%2Fteam%2Fshop/statuses/abcdef0123 Bearer t {"description":"shop runs","name":"cd","state":"success","target_url":""}`,
				"GET /api/v4/projects/group%2Fteam%2Fshop/deployments?environment=prod&order_by=id&page=1&per_page=100&sort=desc Bearer t ",
				`POST /api/v4/projects/group%2Fteam%2Fshop/deployments Bearer t {"environment":"prod","ref":"abcdef0123","sha":"abcdef0123","status":"success","tag":false}`,
				"GET /api/v4/projects/group%2Fteam%2Fshop/repository/commits/abcdef0123/merge_requests Bearer t ",
				"GET /api/v4/projects/group%2Fteam%2Fshop/merge_requests/4/notes?page=1&per_page=100 Bearer t ",
				`POST /api/v4/projects/group%2Fteam%2Fshop/merge_requests/4/notes Bearer t {"body":"new\n\u003c!-- argocd-notifications k1 --\u003e"}`,
			}},
	} {
		options := strings.NewReplacer("@URL", s.URL, "@HOST", host, "@KEY", privateKey(t)).Replace(one.options)
		made, problems, err := service.New(one.kind, []byte(options), clients())
		if err != nil || len(problems) > 0 {
			t.Errorf("%s: %v %v", one.kind, problems, err)
			continue
		}
		s.mu.Lock()
		s.seen = nil
		s.mu.Unlock()
		if err := made.Send(t.Context(), message(one.recipient, one.section)); err != nil {
			t.Errorf("%s: %v", one.kind, err)
		}
		if !slices.Equal(s.seen, one.want) {
			t.Errorf("%s sends\n%s\nand not\n%s", one.kind, strings.Join(s.seen, "\n"), strings.Join(one.want, "\n"))
		}
	}
}

// TestSlackThreads: messages of one grouping key are one thread, and can update its first
// message.
func TestSlackThreads(t *testing.T) {
	s := newServer(t)
	s.responses = map[string]string{"POST /chat.postMessage": `{"ok":true,"channel":"C1","ts":"1.1"}`, "POST /chat.update": `{"ok":true}`}
	made, _, err := service.New("slack", []byte("token: t\napiURL: "+s.URL), clients())
	must.Do(t, err)
	for _, policy := range []string{"Post", "Post", "Update", "PostAndUpdate"} {
		must.Do(t, made.Send(t.Context(), message("ops", `{"groupingKey":"g","deliveryPolicy":"`+policy+`"}`)))
	}
	const post, reply, update = `POST /chat.postMessage Bearer t {"channel":"ops","text":"shop runs"}`,
		`POST /chat.postMessage Bearer t {"channel":"ops","text":"shop runs","thread_ts":"1.1"}`, `POST /chat.update Bearer t {"channel":"C1","text":"shop runs","ts":"1.1"}`
	if want := []string{post, reply, update, reply, update}; !slices.Equal(s.seen, want) {
		t.Errorf("the requests are\n%s", strings.Join(s.seen, "\n"))
	}
}

// TestRefused: what cannot be sent is an error that a retry does not repair, without an
// address or a credential in it.
func TestRefused(t *testing.T) {
	s := newServer(t)
	s.responses = map[string]string{"POST /chat.postMessage": `{"ok":false,"error":"channel_not_found"}`, "POST /connector": "Bad card"}
	for _, one := range []struct{ kind, options, recipient, section, want string }{
		{"slack", "token: t\napiURL: @URL", "none", "", "Slack refuses the message: channel_not_found"},
		{"slack", "token: t\napiURL: @URL", "ops", `{"attachments":"[{]"}`, "slack.attachments of the template app-deployed is no JSON after it was rendered"},
		{"teams", "recipientUrls: {ops: @URL/connector}", "ops", "", "Teams refuses the card: Bad card"},
		{"teams", "recipientUrls: {ops: @URL/connector}", "other", "", `the option recipientUrls has no recipient "other"`},
		{"email", "host: 127.0.0.1\nport: 1\nfrom: a@example.com", "a\r\nBcc: x@example.com", "", `the recipient "a\r\nBcc: x@example.com" is no mail address`},
		{"telegram", "token: '1:s3cret'\napiURL: http://169.254.1.1", "news", "", "169.254.1.1 is an address of the local link"},
		{"gitlab", "token: t\nbaseURL: @URL", "", `{"repoURLPath":"https://evil.example.com/a/b","revisionPath":"abcdef0123","status":{}}`, "the repository is at evil.example.com, and the service is for 127.0.0.1"},
		{"gitlab", "token: t\nbaseURL: @URL", "", `{"repoURLPath":"http://127.0.0.1/a/b","revisionPath":"main/../..","status":{}}`, `"main/../.." is no commit`},
		{"alertmanager", "targets: ['127.0.0.1:1']", "", `{"labels":{}}`, "the template app-deployed has no labels"},
	} {
		made, _, err := service.New(one.kind, []byte(strings.ReplaceAll(one.options, "@URL", s.URL)), clients())
		must.Do(t, err)
		err = made.Send(t.Context(), message(one.recipient, one.section))
		if _, permanent := errors.AsType[*service.PermanentError](err); !permanent || !strings.Contains(err.Error(), one.want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v, and not %s", one.kind, err, one.want)
		}
	}
}

// TestOptions: services that are not supported are refused by name, and options that are
// wrong by theirs.
func TestOptions(t *testing.T) {
	for _, one := range []struct{ kind, options, want string }{
		{"nats", "url: x", "services of the type nats are not supported: use a webhook service"},
		{"pagerduty", "token: x", "use pagerdutyv2"},
		{"carrier-pigeon", "", `there is no type of service "carrier-pigeon": use one of alertmanager, email`},
		{"webhook", "url: no-address", "the option url has to be the address of a server"},
		{"email", "from: a@example.com", "the option host is missing"},
		{"github", "appID: 1\ninstallationID: 2\nprivateKey: none", "the option privateKey is no RSA key"},
		{"slack", "token: [s3cret]", "the options cannot be read"},
	} {
		_, _, err := service.New(one.kind, []byte(one.options), clients())
		if err == nil || !strings.Contains(err.Error(), one.want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v, and not %s", one.kind, err, one.want)
		}
	}
	_, problems, err := service.New("webhook", []byte("url: https://example.com\ncolour: red"), clients())
	if err != nil || len(problems) != 1 {
		t.Errorf("an unknown option is %v %v", problems, err)
	}
}

// TestStatuses: a service that is busy or broken is tried again, and redirects are not
// followed.
func TestStatuses(t *testing.T) {
	for status, want := range map[int]string{429: "busy", 503: "busy", 500: "retry", 502: "retry", 400: "permanent", 401: "permanent", 302: "permanent", 204: "ok"} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "7")
			w.Header().Set("Location", "http://127.0.0.1:1/")
			w.WriteHeader(status)
		}))
		made, _, err := service.New("webhook", []byte("url: "+server.URL), clients())
		must.Do(t, err)
		err = made.Send(t.Context(), message("", ""))
		got := "retry"
		if busy, is := errors.AsType[*service.BusyError](err); is && busy.After == 7*time.Second {
			got = "busy"
		} else if _, is := errors.AsType[*service.PermanentError](err); is {
			got = "permanent"
		} else if err == nil {
			got = "ok"
		}
		if got != want {
			t.Errorf("%d is %s (%v), and not %s", status, got, err, want)
		}
		server.Close()
	}
	// A server that is away is tried again, and its address is in no error.
	made, _, err := service.New("webhook", []byte("url: http://127.0.0.1:1/s3cret"), service.NewClients(outbound.New(netip.MustParsePrefix("127.0.0.0/8"))))
	must.Do(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	err = made.Send(ctx, message("", ""))
	if _, permanent := errors.AsType[*service.PermanentError](err); err == nil || permanent || strings.Contains(fmt.Sprint(err), "s3cret") {
		t.Errorf("a server that is away is %v", err)
	}
}
