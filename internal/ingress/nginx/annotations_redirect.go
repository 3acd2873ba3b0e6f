package nginx

import (
	"fmt"
	"slices"
	"strings"
)

// redirectAnnotations are about redirects.
var redirectAnnotations = []Setting{
	{
		Name: "ssl-redirect", Support: Done, Closes: true,
		Note:     "Plain requests for a host with TLS are redirected with 308. It is on by default. As in ingress-nginx, a slash at the end of the URL is removed.",
		Examples: []string{"true", "false"},
		read:     setBool(func(s *Settings) *bool { return &s.TLS.Redirect }),
	},
	{
		Name: "force-ssl-redirect", Support: Done, Closes: true,
		Note: "Plain requests are redirected with 308, also for a host without TLS.", Examples: []string{"true", "false"},
		read: setBool(func(s *Settings) *bool { return &s.TLS.Force }),
	},
	{
		Name: "preserve-trailing-slash", Support: Done,
		Note: "Keeps the slash at the end of the URL in redirects to https.", Examples: []string{"true", "false"},
		read: setBool(func(s *Settings) *bool { return &s.TLS.KeepSlash }),
	},
	{
		Name: "permanent-redirect", Support: Done, Closes: true,
		Note:     "All requests are redirected to the URL, with 301. It may have `$scheme`, `$host`, `$http_host`, `$request_uri`, `$uri`, `$is_args` and `$args`.",
		Examples: []string{"https://new.example/", "https://new.example$request_uri", "https://new.example/?from=$host"},
		read:     readRedirect(func(s *Settings) *RedirectTo { return &s.Permanent }),
	},
	{
		Name: "permanent-redirect-code", Support: Done,
		Note: "Status of permanent-redirect: 301 or 308.", Examples: []string{"301", "308"},
		read: setRedirectStatus(func(s *Settings) *int { return &s.Permanent.Status }),
	},
	{
		Name: "temporal-redirect", Support: Done, Closes: true,
		Note: "As permanent-redirect, with 302.", Examples: []string{"https://new.example/", "https://new.example$request_uri"},
		read: readRedirect(func(s *Settings) *RedirectTo { return &s.Temporal }),
	},
	{
		Name: "temporal-redirect-code", Support: Done,
		Note: "Status of temporal-redirect: 302, 303 or 307.", Examples: []string{"302", "303", "307"},
		read: setRedirectStatus(func(s *Settings) *int { return &s.Temporal.Status }),
	},
	{
		Name: "from-to-www-redirect", Support: Done,
		Note: "Requests for the host with www. are redirected to the one without it, or the other way round, with 308, unless an Ingress has that host.", Examples: []string{"true", "false"},
		read: setBool(func(s *Settings) *bool { return &s.TLS.WWW }),
	},
	{Name: "relative-redirects", Support: NoEffect, Note: "Redirects of the edge have absolute URLs, which lead clients to the same place."},
	{Name: "use-port-in-redirects", Support: Refused, Off: []string{"false"}, Note: "redirects lead to the ports 80 and 443; use slipway.dev/redirect-scheme with a port"},
}

func readRedirect(slot func(*Settings) *RedirectTo) func(*Settings, string) error {
	return func(s *Settings, text string) error {
		if text == "" {
			return nil
		}
		if err := parseURL(text); err != nil {
			return err
		}
		if _, err := replacementOf(text); err != nil {
			return err
		}
		slot(s).URL = text
		return nil
	}
}

func setRedirectStatus(slot func(*Settings) *int) func(*Settings, string) error {
	return func(s *Settings, text string) error {
		codes := []string{"301", "302", "303", "307", "308"}
		at := slices.Index(codes, text)
		if at < 0 {
			return fmt.Errorf("%.64q is not the status of a redirect: use one of %s", text, strings.Join(codes, ", "))
		}
		*slot(s) = []int{301, 302, 303, 307, 308}[at]
		return nil
	}
}

// requestURL matches the URL of a request, with a group for each variable of nginx that
// a redirect can have: scheme, host with port, host, path, question mark, query.
const requestURL = `^(https?)://(([^/:\[]*|\[[^\]/]*\])(?::[0-9]+)?)([^?]*)(\??)(.*)$`

// urlVariables are the variables in terms of those groups.
var urlVariables = map[string]string{
	"scheme": "${1}", "http_host": "${2}", "best_http_host": "${2}", "host": "${3}",
	"uri": "${4}", "document_uri": "${4}", "is_args": "${5}", "args": "${6}", "query_string": "${6}", "request_uri": "${4}${5}${6}",
}

// replacementOf returns the replacement that makes the URL of a redirect.
func replacementOf(text string) (string, error) {
	var fault error
	out := variable.ReplaceAllStringFunc(text, func(name string) string {
		group, known := urlVariables[strings.Trim(name, "${}")]
		if !known && fault == nil {
			fault = fmt.Errorf("the variable %.64s cannot stand in a redirect: use $request_uri, $host or another one of the request", name)
		}
		return group
	})
	if fault == nil && strings.Contains(variable.ReplaceAllString(text, ""), "$") {
		fault = fmt.Errorf("%.64q has a $ without a name", text)
	}
	return out, fault
}
