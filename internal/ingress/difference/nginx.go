package difference

import (
	"regexp"
	"slices"
	"strings"

	"slipway.dev/slipway/internal/ingress/nginx"
	"slipway.dev/slipway/internal/route"
)

// ofNGINX are the differences of Ingresses of ingress-nginx. test/conformance/nginx sends
// their requests to nginx and to the edge.
var ofNGINX = []Difference{
	{
		ID: "expression-spelling", Source: NGINX, About: "a space or a letter outside of ASCII in a path that is an expression",
		Before: "the path is decoded before it is matched", After: "an expression sees the normalised path: `%20`, not a space",
		Advice: "write the path as it is in a URL, such as /a%20b", applies: expressionSpelling,
	},
	{
		ID: "empty-elements", Source: NGINX, About: "`rewrite-target` that gives an empty element",
		Before: "the backend gets `//`", After: "the backend gets the path without empty elements",
		Advice: "none is needed if the backend takes both; otherwise let the path have the slash: /app(/|$)(.*) and /$2", applies: emptyElements,
	},
	{
		ID: "cors-credentials", Source: NGINX, About: "`Access-Control-Allow-Credentials` with the origin `*`",
		Before: "is sent, and browsers refuse it", After: "is not sent", Advice: "list the origins in cors-allow-origin if scripts send cookies", applies: corsCredentials,
	},
	{
		ID: "cors-options", Source: NGINX, About: "OPTIONS with `enable-cors`",
		Before: "always gets 204", After: "a preflight request gets 204, others go to the backend", applies: corsOptions,
	},
	{
		ID: "sticky-path", Source: NGINX, About: "path of the sticky cookie", Before: "path of the location", After: "path `/`, unless `session-cookie-path` is set",
		Advice: "set session-cookie-path", applies: stickyPath,
	},
	{
		ID: "password-charset", Source: NGINX, About: "password prompt", Before: "leaves the encoding of passwords open", After: "`charset=\"UTF-8\"` in WWW-Authenticate",
		applies: passwordCharset,
	},
	{
		ID: "error-page-headers", Source: NGINX, About: "headers of a page of `custom-http-errors`", Before: "those of the page", After: "those of the application's response stay",
		applies: errorPageHeaders,
	},
	{
		ID: "client-certificates", Source: NGINX, About: "clients without a certificate, with `auth-tls-secret`", Before: "get 400", After: "fail in the TLS handshake",
		applies: clientCertificates,
	},
	{
		ID: "auth-cookies", Source: NGINX, About: "several cookies of the server of `auth-url`", Before: "the client gets the first, or one line that it reads as one cookie",
		After: "the client gets all", applies: onPolicy(func(p *route.Policy) bool { return p.ForwardAuth != nil && p.ForwardAuth.AuthRequest != nil },
			"the first cookie of the authentication server", "all cookies of the authentication server"),
	},
	{
		ID: "backend-headers", Source: NGINX, General: true, About: "headers for backends", Before: "also X-Scheme, X-Forwarded-Scheme, X-Request-ID",
		After: "X-Forwarded-For, -Host, -Port, -Proto",
	},
	{
		ID: "ambiguous-paths", Source: NGINX, General: true, About: "paths with a semicolon, %2F, %5C or %23",
		Before: "are forwarded", After: "get 400, unless http.encodedCharacters of the entry point allows them",
	},
	{
		ID: "own-pages", Source: NGINX, General: true, About: "pages of errors that the proxy finds itself", Before: "HTML", After: "plain text",
	},
}

// isExpression reports whether a rule of ingress-nginx matches by an expression, and
// returns the path as it is written.
func isExpression(rule *route.Rule) (path string, is bool) {
	path, is = strings.CutPrefix(rule.Match.Path.Value, nginx.Expression(""))
	return path, is && rule.Match.Path.Type == route.PathRegexp
}

func expressionSpelling(s *Subject) *Example {
	for _, rule := range s.Rules {
		path, is := isExpression(rule)
		if !is || len(rule.Backends) == 0 {
			continue
		}
		literal := strings.ReplaceAll(PathFor(rule.Match.Path), `\s`, " ")
		other := slices.IndexFunc([]byte(path), func(c byte) bool { return c >= 0x80 })
		if !strings.Contains(path, " ") && !strings.Contains(path, `\s`) && other < 0 {
			continue
		}
		if !strings.Contains(literal, " ") && other < 0 {
			literal += "%20"
		}
		return &Example{
			URL: s.url(rule, encoded(literal)), Before: "the Service of this path", After: "404, or another path",
		}
	}
	return nil
}

// encoded returns a path as a client sends it.
func encoded(path string) string {
	const digits = "0123456789ABCDEF"
	var out strings.Builder
	for i := range len(path) {
		if c := path[i]; c <= ' ' || c >= 0x7f {
			out.Write([]byte{'%', digits[c>>4], digits[c&15]})
		} else {
			out.WriteByte(c)
		}
	}
	return out.String()
}

func emptyElements(s *Subject) *Example {
	if s.NGINX == nil || s.NGINX.RewriteTarget == "" {
		return nil
	}
	for _, rule := range s.Rules {
		path, is := isExpression(rule)
		if !is || len(rule.Backends) == 0 {
			continue
		}
		expression, err := regexp.Compile(nginx.Expression(path))
		if err != nil {
			continue
		}
		literal := strings.TrimSuffix(PathFor(rule.Match.Path), "/")
		for _, sent := range []string{literal + "/probe", literal + "/", literal + "/probe/x"} {
			made := rewritten(expression, sent, s.NGINX.RewriteTarget)
			if one := oneSlash(made); one != made {
				return &Example{URL: s.url(rule, sent), Before: "the backend gets " + made, After: "the backend gets " + one}
			}
		}
	}
	return nil
}

var group = regexp.MustCompile(`\$([0-9])`)

// rewritten returns what nginx makes of a path by a rewrite target; the path itself if
// the expression does not match it.
func rewritten(expression *regexp.Regexp, path, target string) string {
	at := expression.FindStringSubmatchIndex(path)
	if at == nil {
		return path
	}
	return string(expression.ExpandString(nil, group.ReplaceAllString(target, "${$1}"), path, at))
}

// oneSlash makes several slashes one.
func oneSlash(path string) string {
	for strings.Contains(path, "//") {
		path = strings.ReplaceAll(path, "//", "/")
	}
	return path
}

// corsRule returns the rule that a cross-origin request is sent to, nil without CORS.
func corsRule(s *Subject) *route.Rule {
	if s.NGINX == nil || !s.NGINX.CORS.Enabled {
		return nil
	}
	return s.rule()
}

func corsCredentials(s *Subject) *Example {
	rule := corsRule(s)
	if rule == nil || !s.NGINX.CORS.Credentials || !slices.Contains(s.NGINX.CORS.Origins, "*") {
		return nil
	}
	example := s.get(rule, "Access-Control-Allow-Credentials: true", "no Access-Control-Allow-Credentials")
	example.Headers = []string{"Origin: https://other.example"}
	return example
}

func corsOptions(s *Subject) *Example {
	rule := corsRule(s)
	if rule == nil {
		return nil
	}
	example := s.get(rule, "204", "the response of the backend to OPTIONS")
	example.Method = "OPTIONS"
	return example
}

func stickyPath(s *Subject) *Example {
	if s.NGINX == nil || !s.NGINX.Backend.Sticky || s.NGINX.Backend.Cookie.Path != "" {
		return nil
	}
	for _, rule := range s.Rules {
		path := PathFor(rule.Match.Path)
		if len(rule.Backends) == 0 || path == "/" {
			continue
		}
		name := s.NGINX.Backend.Cookie.Name
		return s.get(rule, "Set-Cookie: "+name+" with Path="+path, "Set-Cookie: "+name+" with Path=/")
	}
	return nil
}

func passwordCharset(s *Subject) *Example {
	if s.NGINX == nil || s.NGINX.Auth.Type == "" || s.rule() == nil {
		return nil
	}
	return s.get(s.rule(), "401 and WWW-Authenticate without charset", `401 and WWW-Authenticate with charset="UTF-8"`)
}

func errorPageHeaders(s *Subject) *Example {
	if s.NGINX == nil || s.NGINX.Errors.Service == "" || s.rule() == nil {
		return nil
	}
	return s.get(s.rule(), "with an error of the application: only the headers of the page", "with an error of the application: its headers, and the page")
}

func clientCertificates(s *Subject) *Example {
	if s.NGINX == nil || s.NGINX.ClientAuth.Secret == "" || s.NGINX.ClientAuth.Mode != "verify" || s.rule() == nil {
		return nil
	}
	rule := s.rule()
	return &Example{URL: "https://" + HostFor(rule.Host) + PathFor(rule.Match.Path), Before: "400", After: "no response: the handshake fails"}
}
