package nginx

import (
	"errors"
	"fmt"
	"math"
)

// snippetAdvice is the advice for text of nginx's configuration.
const snippetAdvice = "it is text of nginx's configuration; use annotations and Middlewares of slipway.dev for what it does"

// canaryAnnotations make an Ingress the canary of another one.
var canaryAnnotations = []Setting{
	{
		Name: "canary", Support: Done, Closes: true,
		Note:     "The Ingress is the canary of the one with the same host and path in its namespace; its other annotations do not count, but those of load-balance, upstream-hash-by and affinity.",
		Examples: []string{"true"}, read: setBool(func(s *Settings) *bool { return &s.Canary.Enabled }),
	},
	{
		Name: "canary-weight", Support: Done, Closes: true,
		Note: "Share of the requests that the canary gets.", Examples: []string{"0", "100"},
		read: setCount(func(s *Settings) *int64 { return &s.Canary.Weight }, math.MaxInt32),
	},
	{
		Name: "canary-weight-total", Support: Done, Closes: true,
		Note: "The whole of canary-weight; the default is 100.", Examples: []string{"1000"},
		read: readWeightTotal,
	},
	{
		Name: "canary-by-header", Support: Done, Closes: true,
		Note: "Header that decides: `always` or `never`. It comes before the cookie and the weight.", Examples: []string{"X-Canary"},
		read: setText(func(s *Settings) *string { return &s.Canary.Header }),
	},
	{
		Name: "canary-by-header-value", Support: Done, Closes: true,
		Note: "Value of the header that leads to the canary, in place of always and never.", Examples: []string{"yes"},
		read: setText(func(s *Settings) *string { return &s.Canary.Value }),
	},
	{
		Name: "canary-by-header-pattern", Support: Done, Closes: true,
		Note: "Expression for the header that leads to the canary. canary-by-header-value wins.", Examples: []string{"^(a|b)$"},
		read: readCanaryPattern,
	},
	{
		Name: "canary-by-cookie", Support: Done, Closes: true,
		Note: "Cookie that decides: `always` or `never`. It comes before the weight.", Examples: []string{"canary"},
		read: setText(func(s *Settings) *string { return &s.Canary.Cookie }),
	},
}

func readWeightTotal(s *Settings, text string) error {
	total, err := parseCount(text, math.MaxInt32)
	if err == nil && total == 0 {
		err = fmt.Errorf("a whole of 0 has no shares: give a number over 0")
	}
	if err == nil {
		s.Canary.Total = total
	}
	return err
}

func readCanaryPattern(s *Settings, text string) error {
	if problem := ExpressionProblem(text); problem != "" {
		return fmt.Errorf("%s", problem)
	}
	s.Canary.Pattern = text
	return nil
}

// otherAnnotations are all others.
var otherAnnotations = []Setting{
	{
		Name: "configuration-snippet", Support: Done, Closes: true, lines: true,
		Note:     "Directives of nginx for the paths of the Ingress, from a closed list: see [snippets](#snippets). Snippets must be allowed.",
		Examples: snippetExamples, read: readConfigurationSnippet,
	},
	{
		Name: "server-snippet", Support: Done, Closes: true, lines: true,
		Note:     "As configuration-snippet, for all paths of the host, with locations. Of several Ingresses of a host the oldest counts.",
		Examples: serverExamples, read: readServerSnippet,
	},
	{Name: "stream-snippet", Support: Refused, Closes: true, Note: snippetAdvice},
	{Name: "custom-headers", Support: Refused, Note: "write the headers of the ConfigMap into slipway.dev/response-headers"},
	{Name: "mirror-target", Support: Refused, Note: "name a Service with slipway.dev/mirror: an address would lead the edge anywhere"},
	{Name: "mirror-host", Support: Refused, Note: "name a Service with slipway.dev/mirror"},
	{Name: "mirror-request-body", Support: Refused, Off: []string{"on"}, Note: "name a Service with slipway.dev/mirror, and set maxBodyBytes"},
	{Name: "ssl-passthrough", Support: Refused, Closes: true, Off: []string{"false"}, Note: "use a TLSRoute of Gateway API with a listener of mode Passthrough"},
	{Name: "ssl-ciphers", Support: Refused, Note: "name a TLSOption with slipway.dev/tls-options"},
	{Name: "ssl-prefer-server-ciphers", Support: NoEffect, Note: "The edge chooses the cipher suite, by its speed on both machines."},
	{
		Name: "enable-access-log", Support: Done,
		Note: "`false` keeps the requests out of the access log.", Examples: []string{"true", "false"},
		read: func(s *Settings, text string) error {
			return setBool(func(s *Settings) *bool { return &s.NoAccessLog })(s, negated(text))
		},
	},
	{Name: "enable-rewrite-log", Support: NoEffect, Note: "`slipway explain URL` shows what becomes of a request."},
	{Name: "http2-push-preload", Support: NoEffect, Note: "Browsers no longer support server push."},
	{Name: "enable-opentelemetry", Support: NoEffect, Note: "Traces are an option of the edge; `slipway.dev` and Traefik's observability annotations turn them off for an Ingress."},
	{Name: "opentelemetry-operation-name", Support: NoEffect, Note: "Spans are named after the rule."},
	{Name: "opentelemetry-trust-incoming-span", Support: NoEffect, Note: "The trace of a trusted proxy continues; others start a new one."},
}

// snippetExamples are in the manner of those that people have.
var snippetExamples = []string{
	"more_set_headers \"X-Frame-Options: DENY\";\nmore_clear_headers X-Powered-By;\n",
	"if ($request_uri ~* \"^/old/(.*)\") {\n  return 301 /new/$1;\n}\nadd_header X-Robots-Tag noindex always;\n",
	"rewrite ^/app/(.*)$ /$1 break;\nproxy_set_header X-Original-URI $request_uri;\nproxy_hide_header X-Backend-Version;\n",
	"set $blocked \"\";\nif ($http_user_agent ~* (bot|crawler)) {\n  set $blocked 1;\n}\nif ($blocked) {\n  return 403;\n}\n",
	"allow 10.0.0.0/8;\nallow 127.0.0.1;\ndeny all;\n",
}

var serverExamples = []string{
	"if ($http_user_agent ~* badbot) {\n  return 403;\n}\nadd_header X-Server one;\n",
	"location = /robots.txt {\n  return 200 \"User-agent: *\";\n}\nlocation ~* \\.(php|aspx)$ {\n  deny all;\n}\nlocation /old {\n  return 301 /app$request_uri;\n}\n",
	"rewrite ^/moved/(.*)$ /app/$1 last;\nrewrite ^/gone /new permanent;\n",
}

// errSnippets is why a snippet is refused. Who may write one decides about headers and
// responses of the host, so it must be allowed, as in ingress-nginx.
var errSnippets = errors.New("snippets are not allowed: set providers.kubernetesIngressNGINX.allowSnippetAnnotations if all who write Ingresses may have them, or use annotations")

func readConfigurationSnippet(s *Settings, text string) error {
	switch {
	case text == "":
		return nil
	case !s.Snippets.Allowed:
		return errSnippets
	}
	made, err := translateSnippet(text, s)
	if err != nil {
		return err
	}
	joined := Snippets{Location: made, Everywhere: s.Snippets.Everywhere}
	if err := joined.located().accessError(); err != nil {
		return fmt.Errorf("with location-snippet of the ConfigMap, %w", err)
	}
	s.Snippets.Location = made
	return nil
}

// readLocationSnippet reads the snippet of the operator, which needs no permission.
func readLocationSnippet(s *Settings, text string) error {
	made, err := translateSnippet(text, s)
	if err == nil {
		s.Snippets.Everywhere = made
	}
	return err
}

func readServerSnippet(s *Settings, text string) error {
	switch {
	case text == "":
		return nil
	case !s.Snippets.Allowed:
		return errSnippets
	}
	made, err := translateServer(text, s)
	if err == nil {
		s.Snippets.Server = made
	}
	return err
}

// negated returns the other truth value; a text that is none stays as it is.
func negated(text string) string {
	switch text {
	case "true":
		return "false"
	case "false":
		return "true"
	}
	return text
}
