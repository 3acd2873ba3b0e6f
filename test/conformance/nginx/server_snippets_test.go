package nginx

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// serverHeaders are the headers of responses that the examples change.
var serverHeaders = []string{"X-Server"}

// servers are server-snippets, each with a path / and a path /two.
var servers = []snippetCase{
	{outside: "return 403;"},
	{outside: "return 301 https://other.example$request_uri;", text: "return 200 never;"},
	{outside: "if ($arg_x) { return 301 /y$is_args$args; }"},
	{outside: `if ($http_user_agent ~* "^test/(.)") { return 200 "agent $1"; }`},
	{outside: "rewrite ^/old/(.*)$ /new/$1 last;"},
	{outside: "rewrite ^/old/(.*)$ /new/$1 break;"},
	{outside: "rewrite ^/old/(.*)$ /two/$1;"},
	{outside: "rewrite ^/old/(.*)$ /two/$1 permanent;"},
	{outside: "rewrite ^/old/(.*)$ /two/$1 redirect;", text: "add_header X-One inner;"},
	{outside: "rewrite ^/old/(.*)$ /two/$1 last;", text: "rewrite ^/two/(.*)$ /three/$1 break;"},
	{outside: "rewrite ^/old /new; rewrite ^/new /two/x;", text: "add_header X-One $uri always;"},
	{outside: "set $a 1; set $args only=1;", text: "proxy_set_header X-Set-One $args;"},
	{outside: "add_header X-One outer;"},
	{outside: "add_header X-One outer;", text: "add_header X-Two inner;"},
	{outside: "add_header X-One outer always;", text: "if ($arg_x) { add_header X-Two inner; }"},
	{outside: `more_set_headers "X-One: outer" "X-Powered-By: server";`, text: `more_set_headers "X-One: inner";`},
	{outside: "more_clear_headers X-Powered-By;"},
	{outside: "proxy_hide_header X-Powered-By;"},
	{outside: "proxy_hide_header X-Powered-By;", text: "proxy_hide_header X-Backend-Version;"},
	{outside: "deny all;"},
	{outside: "deny all;", text: "allow 127.0.0.1; deny all;"},
	{outside: "allow 127.0.0.1; deny all;"},
	{outside: "allow 127.0.0.1; deny all;", text: "deny all;"},
	{outside: "deny all; location = /old { return 200 before; } location /a { allow all; return 404 x; } location /x { }"},
	{outside: "location = /x { return 200 exact; } location /x { return 200 prefix; } location /x/y { return 200 longer; }"},
	{outside: "location /old { return 301 /new$request_uri; }"},
	{outside: "location /old { deny all; } location /a { }"},
	{outside: "location /old { allow 127.0.0.1; deny all; }"},
	{outside: `location ~ \\.html$ { return 200 page; } location ~* ^/OLD/(.*) { return 200 "old $1"; } location /a/b { return 200 never; }`},
	{outside: `location ~ ^/(a|b) { return 200 first; } location ~ ^/a { return 200 second; } location ~* ^/A { return 200 third; }`},
	{outside: `location ^~ /a { return 200 prefix; } location ~ \\.html$ { return 200 page; } location ~ ^/x { return 200 x; }`},
	{outside: "location /old { rewrite ^/old/(.*)$ /two/$1 last; return 404; }"},
	{outside: "location /old { rewrite ^ /x last; } location = /x { return 200 \"$uri\"; }"},
	{outside: "location /old { if ($arg_x) { return 200 x; } return 410; }"},
	{outside: "set $s server; location /old { add_header X-One $s; return 200 $s; }"},
	{outside: "add_header X-One outer; location /old { return 200 a; } location /x { add_header X-Two inner; return 200 b; }"},
	{outside: "default_type text/plain; location /old { return 200 a; } location /x { default_type application/json; return 200 b; }"},
	{outside: "location = /robots.txt { return 200 \"User-agent: *\\nDisallow: /\"; }"},
	{outside: `location /old { return 200 behind; } location = /x { return 200 exact; } location ~ ^/app/re { return 200 before; }`, path: "/app/(.*)", target: "/$1"},
	{outside: `location ^~ /app/x { return 200 before; } location /a { return 200 prefix; }`, path: "/a(.*)", target: "/$1"},
	{outside: "rewrite ^/old/(.*)$ /app/$1 last;", path: "/app/(.*)", target: "/$1", text: "add_header X-One $uri;"},
	{outside: "if ($arg_x) { set $found 1; } if ($found) { rewrite ^ /two/found last; }"},
}

// TestServerSnippets: server-snippets with and without locations give the responses of
// nginx.
func TestServerSnippets(t *testing.T) {
	var list []snippetCase
	for i, c := range servers {
		c.name = fmt.Sprintf("server-%d", i)
		if c.target == "" && c.path == "" {
			c.other = "/two"
		}
		c.requests = []request{
			{method: "GET", target: "/two/x?x=1"}, {method: "GET", target: "/robots.txt"}, {method: "GET", target: "/x/y/z"}, {method: "GET", target: "/app/x/y.html"},
			{method: "GET", target: "/app/re?x=1"}, {method: "GET", target: "/OLD/Page"}, {method: "GET", target: "/b.html"}, {method: "GET", target: "/xyz"},
		}
		list = append(list, c)
	}
	compareSnippets(t, list, 600)
}

// TestGeneratedServerSnippets: generated steps of a server before those of its locations.
func TestGeneratedServerSnippets(t *testing.T) {
	random := rand.New(rand.NewPCG(59, 21))
	var list []snippetCase
	for len(list) < 200 {
		c := snippetCase{name: fmt.Sprintf("server-generated-%d", len(list)), text: generateSnippet(random), other: "/two"}
		// Headers of an if are for locations only, and those of proxies have no effect.
		for line := range strings.Lines(generateSnippet(random)) {
			if !strings.Contains(line, "header") {
				c.outside += line
			}
		}
		list = append(list, c)
	}
	compareSnippets(t, list, 1500)
}
