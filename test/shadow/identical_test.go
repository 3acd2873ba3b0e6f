package shadow

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/shadow"
)

// same are the hosts of a pair that does the same, with nginx's words and the edge's.
var same = []planted{
	{name: "plain"},
	{name: "redirect", location: "return 308 https://$host$request_uri;", rule: redirect("https://redirect.example${1}", 308)},
	{name: "relative", location: "return 301 https://new.example$request_uri;", rule: redirect("https://new.example${1}", 301)},
	{name: "zipped", location: "gzip on; gzip_vary on; PASS", rule: "policies: [{compression: {encodings: [gzip], minBytes: 1}}]", headers: []string{"Accept-Encoding: gzip"}},
	{name: "secure", location: `add_header Strict-Transport-Security "max-age=60" always; PASS`, rule: setHeader("Strict-Transport-Security", "max-age=60")},
	{name: "sticky", location: `add_header Set-Cookie "route=$request_id; Path=/; HttpOnly" always; PASS`,
		rule: "policies: [{responseHeaders: {add: [{name: Set-Cookie, value: 'route=1; HttpOnly; Path=/'}]}}]"},
	{name: "part", server: "location = /app { PASS } location /app/ { PASS }", rule: "match: {path: {type: prefix, value: /app}}"},
	{name: "closed", location: "auth_basic shop; auth_basic_user_file /dev/null; PASS",
		rule: "policies: [{basicAuth: {realm: shop, users: '" + users + "'}}]"},
}

// TestIdentical: of a pair that does the same, no difference is reported, in
// SHADOW_REQUESTS requests of an access log. make shadow has 100,000.
func TestIdentical(t *testing.T) {
	total := programs.Setting(t, "SHADOW_REQUESTS", 5000)
	g := newGround(t)
	var servers, rules strings.Builder
	for _, one := range same {
		server, rule := one.configure(g)
		servers.WriteString(server)
		rules.WriteString(rule)
	}
	g.startNGINX(t, servers.String())
	g.startEdge(t, rules.String())
	const timeout = time.Minute
	log, writer := io.Pipe()
	go func() { _ = writer.CloseWithError(writeLog(writer, total)) }()
	parser := &shadow.LogParser{Format: must.Get(shadow.CompileLogFormat(hostFormat))(t)}
	began := time.Now()
	report := must.Get(shadow.Run(t.Context(), shadow.Options{
		Old: []*shadow.Target{target(t, "http://"+g.nginx, timeout)}, New: []*shadow.Target{target(t, "http://"+g.edge, timeout)},
		Methods: shadow.SafeMethods(), Compare: shadow.NewComparer(nil, nil), Concurrency: 16, Retries: 2,
	}, func(ctx context.Context, intake *shadow.Intake) error {
		return shadow.ReadLog(ctx, log, parser, intake)
	}))(t)
	t.Logf("%d requests in %s: %+v", total, time.Since(began).Round(time.Millisecond), report.Counts)
	requireCauses(t, report, nil)
	if want := (shadow.Counts{Compared: int64(total), Same: int64(total)}); report.Counts != want {
		t.Errorf("the counts are %+v, skipped %v", report.Counts, report.SkippedBy)
		for _, group := range report.UnstableGroups {
			t.Logf("unstable %s of %s: old %q, new %q", group.Cause, group.Host, group.Example.Old, group.Example.New)
		}
	}
}

// hostFormat is a log-format-upstream with the host.
const hostFormat = `$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent" ` +
	`$request_length $request_time [$proxy_upstream_name] [$proxy_alternative_upstream_name] $upstream_addr "$host" "$http_accept_encoding"`

// writeLog writes an access log: hosts, methods, paths and queries in turn.
func writeLog(w io.Writer, lines int) error {
	methods := []string{"GET", "GET", "GET", "HEAD", "GET", "OPTIONS"}
	paths := []string{"/", "/app", "/app/page", "/app/%C3%A4?q=%20x&y=1", "/missing", "/app/missing/page", "/app?next=https://a.example/&token=x", "/app/a+b"}
	for i := range lines {
		host := same[i%len(same)]
		encoding, method := "-", methods[i%len(methods)]
		if len(host.headers) > 0 {
			encoding, method = "gzip", "GET" // nginx compresses what HEAD would return
		}
		_, err := fmt.Fprintf(w, `192.0.2.1 - - [17/Nov/2026:10:00:00 +0000] "%s %s HTTP/1.1" 200 10 "-" "client/%d" 100 0.001 [default-one-80] [] 10.0.0.1:80 "%s.example" "%s"`+"\n",
			method, paths[(i/len(same))%len(paths)], i%7, host.name, encoding)
		if err != nil {
			return err
		}
	}
	return nil
}
