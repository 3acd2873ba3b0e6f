package nginx

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"slipway.dev/slipway/internal/route"
)

// ExternalAuth has the settings of authentication by another server. Without a URL it
// is off, as in ingress-nginx.
type ExternalAuth struct {
	URL AuthURL
	// Method is that of the sub-request, empty for GET.
	Method string
	// Signin is the URL of the sign-in page, and RedirectParam its parameter for the
	// URL of the request, empty for rd.
	Signin, RedirectParam string
	ResponseHeaders       []string
	RequestRedirect       string
	// HeadersFrom is a ConfigMap with headers of the sub-request.
	HeadersFrom     string
	AlwaysSetCookie bool
	CacheKey        string
	CacheTimes      []route.AuthCacheTime
	// Snippet has directives for the sub-request, nil without any.
	Snippet *route.DirectiveAuth
}

// AuthURL is a parsed URL of an authentication server.
type AuthURL struct {
	// Host is the host without a port; empty if the URL has that of the request. That
	// of an unset URL is empty, too, and so is its scheme.
	Scheme, Host string
	Port         uint16
	// Target is path and query, perhaps with variables.
	Target string
}

// Set reports whether there is a URL.
func (u *AuthURL) Set() bool { return u.Scheme != "" }

// Effective returns the settings that hold for an Ingress, nil for none, and the
// annotation that enables them. Those of the operator may name Services of all
// namespaces.
func (a *Auth) Effective() (auth *ExternalAuth, annotation string, operator bool) {
	switch {
	case a.External.URL.Set():
		return &a.External, "auth-url", false
	case a.Global.URL.Set() && !a.SkipGlobal:
		return &a.Global, "enable-global-auth", true
	}
	return nil, "", false
}

// ChallengePath reports whether a path is one of ACME challenges, which are served
// without authentication, as with the default of no-auth-locations.
func ChallengePath(path string) bool { return strings.HasPrefix(path, acmePath) }

// readAuthURL reads a URL whose host is fixed, or that of the request.
func readAuthURL(slot func(*Settings) *ExternalAuth) func(*Settings, string) error {
	return func(s *Settings, text string) error {
		parsed, err := parseAuthURL(text)
		if err == nil {
			slot(s).URL = parsed
		}
		return err
	}
}

func parseAuthURL(text string) (AuthURL, error) {
	if err := checkText(text); err != nil || text == "" {
		return AuthURL{}, err
	}
	scheme, rest, found := strings.Cut(text, "://")
	at := strings.IndexAny(rest, "/?#")
	if at < 0 {
		at = len(rest)
	}
	made := AuthURL{Scheme: strings.ToLower(scheme), Port: 80, Target: rest[at:]}
	if made.Scheme == "https" {
		made.Port = 443
	}
	switch {
	case !found || made.Scheme != "http" && made.Scheme != "https":
		return AuthURL{}, fmt.Errorf("%.64q is not a URL that starts with http:// or https://", text)
	case strings.ContainsAny(made.Target, "# \""):
		return AuthURL{}, errors.New("its path or query has a character that no URL has: write it as %XX")
	case !strings.HasPrefix(made.Target, "/"):
		made.Target = "/" + made.Target
	}
	if _, err := route.ParseVariables(made.Target); err != nil {
		return AuthURL{}, err
	}
	return made, made.setHost(rest[:at])
}

// setHost reads the host of the URL, with its port.
func (u *AuthURL) setHost(text string) error {
	switch strings.NewReplacer("{", "", "}", "").Replace(text) {
	case "$host", "$http_host", "$best_http_host":
		return nil
	case "":
		return errors.New("the URL has no host: give one")
	}
	host, port, has := strings.Cut(text, ":")
	if has {
		number, err := strconv.ParseUint(port, 10, 16)
		if err != nil || number == 0 {
			return fmt.Errorf("%.64q is no port", port)
		}
		u.Port = uint16(number)
	}
	u.Host = strings.TrimSuffix(strings.ToLower(host), ".")
	if strings.Contains(text, "$") {
		return errors.New("its host has a variable: give the host of the server, or $host for that of the request")
	}
	if _, err := netip.ParseAddr(u.Host); err != nil && !hostText.MatchString(u.Host) || len(u.Host) > 253 {
		return fmt.Errorf("%.64q is not a host with or without a port", text)
	}
	return nil
}

// hostText is the form of a host: no user, no IPv6 address.
var hostText = regexp.MustCompile(`^[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?$`)

var authMethods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}

func readAuthMethod(slot func(*Settings) *ExternalAuth) func(*Settings, string) error {
	return func(s *Settings, text string) error {
		if text != "" && !slices.Contains(authMethods, text) {
			return fmt.Errorf("%.64q is not possible: use one of %s", text, strings.Join(authMethods, ", "))
		}
		slot(s).Method = text
		return nil
	}
}

// readAuthSignin reads the URL of the sign-in page. Its host may be a variable.
func readAuthSignin(slot func(*Settings) *ExternalAuth) func(*Settings, string) error {
	return func(s *Settings, text string) error {
		if err := checkVariables(text); err != nil {
			return err
		}
		if text == "" {
			return nil
		}
		if strings.ContainsAny(text, " \"") || !slices.ContainsFunc([]string{"https://", "http://", "$scheme://", "${scheme}://", "$pass_access_scheme://", "/"}, func(start string) bool {
			return strings.HasPrefix(text, start)
		}) || strings.HasPrefix(text, "//") {
			return fmt.Errorf("%.64q is not a URL that starts with https://, http:// or $scheme://", text)
		}
		slot(s).Signin = text
		return nil
	}
}

// checkVariables checks a text with variables.
func checkVariables(text string) error {
	if err := checkText(text); err != nil {
		return err
	}
	_, err := route.ParseVariables(text)
	return err
}

func readRedirectParam(slot func(*Settings) *ExternalAuth) func(*Settings, string) error {
	return func(s *Settings, text string) error {
		if url.QueryEscape(text) != text {
			return fmt.Errorf("%.64q is not the name of a parameter: use letters and digits", text)
		}
		slot(s).RedirectParam = text
		return nil
	}
}

// headerText is what ingress-nginx admits as the name of a header.
var headerText = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

func readAuthHeaders(slot func(*Settings) *ExternalAuth) func(*Settings, string) error {
	return func(s *Settings, text string) error {
		list, err := parseList(text)
		if err != nil {
			return err
		}
		for _, name := range list {
			if !headerText.MatchString(name) {
				return fmt.Errorf("%.64q is not the name of a header", name)
			}
		}
		slot(s).ResponseHeaders = list
		return nil
	}
}

func readRequestRedirect(slot func(*Settings) *ExternalAuth) func(*Settings, string) error {
	return func(s *Settings, text string) error {
		err := checkVariables(text)
		if err == nil {
			slot(s).RequestRedirect = text
		}
		return err
	}
}

func readCacheKey(slot func(*Settings) *ExternalAuth) func(*Settings, string) error {
	return func(s *Settings, text string) error {
		err := checkVariables(text)
		if err == nil {
			slot(s).CacheKey = text
		}
		return err
	}
}

// readCacheDuration reads entries as those of proxy_cache_valid, separated by commas.
func readCacheDuration(slot func(*Settings) *ExternalAuth) func(*Settings, string) error {
	return func(s *Settings, text string) error {
		list, err := parseList(text)
		if err != nil {
			return err
		}
		var times []route.AuthCacheTime
		for _, entry := range list {
			made, err := parseCacheTime(strings.Fields(entry))
			if err != nil {
				return err
			}
			times = append(times, made)
		}
		slot(s).CacheTimes = times
		return nil
	}
}

func parseCacheTime(words []string) (made route.AuthCacheTime, err error) {
	last := len(words) - 1
	if made.For, err = parseTime(words[last]); err != nil {
		return made, err
	}
	for _, word := range words[:last] {
		status, err := strconv.Atoi(word)
		switch {
		case word == "any":
			made.Statuses = nil
			return made, nil
		case err != nil || status < 200 || status > 599:
			return made, fmt.Errorf("%.64q is neither a status nor any", word)
		}
		made.Statuses = append(made.Statuses, status)
	}
	if last == 0 {
		made.Statuses = []int{200, 301, 302} // those of nginx
	}
	return made, nil
}

// timeUnits are those of nginx; without one, a number has seconds.
var timeUnits = map[string]time.Duration{
	"": time.Second, "s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour, "w": 7 * 24 * time.Hour,
}

func parseTime(text string) (route.Duration, error) {
	digits := strings.TrimRight(text, "smhdw")
	unit, known := timeUnits[text[len(digits):]]
	count, err := strconv.ParseUint(digits, 10, 31)
	if err != nil || !known || count > uint64((10*365*24*time.Hour)/unit) {
		return 0, fmt.Errorf("%.64q is not a time such as 5m", text)
	}
	return route.Duration(time.Duration(count) * unit), nil
}

// defaultCacheTimes are those of ingress-nginx.
var defaultCacheTimes = []route.AuthCacheTime{{Statuses: []int{200, 202, 401}, For: route.Duration(5 * time.Minute)}}

// authTimeout bounds a sub-request, as the default of nginx does.
const authTimeout = route.Duration(60 * time.Second)

// Policy returns the policy of the authentication. Headers are those of HeadersFrom.
func (a *ExternalAuth) Policy(id route.PolicyID, backend route.BackendID, headers []route.HeaderValue) route.Policy {
	request := &route.AuthRequest{Host: "$host", Signin: a.signinText(), AlwaysSetCookie: a.AlwaysSetCookie, CacheKey: a.CacheKey}
	auth := &route.ForwardAuth{
		Backend: backend, Path: "/", Method: a.Method, ResponseHeaders: a.ResponseHeaders, Timeout: authTimeout, AuthRequest: request,
	}
	if a.URL.Host != "" {
		auth.Host, request.Host = a.URL.Host, ""
	}
	if strings.Contains(a.URL.Target, "$") {
		request.Target = a.URL.Target
	} else {
		auth.Path, auth.Query, _ = strings.Cut(a.URL.Target, "?")
	}
	if a.CacheKey != "" {
		request.Cache = a.CacheTimes
		if len(request.Cache) == 0 {
			request.Cache = defaultCacheTimes
		}
	}
	request.Headers = a.headers()
	for _, header := range headers {
		if strings.EqualFold(header.Name, "Host") {
			auth.Host, request.Host = "", header.Value
			continue
		}
		request.Headers = slices.DeleteFunc(request.Headers, func(own route.HeaderValue) bool { return strings.EqualFold(own.Name, header.Name) })
		request.Headers = append(request.Headers, header)
	}
	id.Variant = "nginx-auth-url"
	return route.Policy{ID: id, ForwardAuth: auth}
}

// headers returns the headers that ingress-nginx sets in the sub-request.
func (a *ExternalAuth) headers() []route.HeaderValue {
	redirect := a.RequestRedirect
	if redirect == "" {
		redirect = "$request_uri"
	}
	headers := []route.HeaderValue{
		{Name: "X-Original-URL", Value: "$scheme://$http_host$request_uri"},
		{Name: "X-Original-Method", Value: "$request_method"},
		{Name: "X-Sent-From", Value: "nginx-ingress-controller"},
		{Name: "X-Real-IP", Value: "$remote_addr"},
		{Name: "X-Forwarded-For", Value: "$remote_addr"},
		{Name: "X-Auth-Request-Redirect", Value: redirect},
	}
	if a.Method != "" {
		headers = append(headers, route.HeaderValue{Name: "X-Original-URI", Value: "$request_uri"}, route.HeaderValue{Name: "X-Scheme", Value: "$pass_access_scheme"})
	}
	return headers
}

// signinText returns the Location of the redirect to the sign-in page: with the URL of
// the request in a parameter, unless the URL has that one already.
func (a *ExternalAuth) signinText() string {
	if a.Signin == "" {
		return ""
	}
	text, param := a.Signin, a.RedirectParam
	if param == "" {
		param = "rd"
	}
	if strings.HasPrefix(text, "/") {
		text = "$scheme://$host" + text // nginx makes it absolute, too
	}
	requested := param + "=$pass_access_scheme://$http_host$escaped_request_uri"
	_, query, _ := strings.Cut(text, "?")
	values, _ := url.ParseQuery(query)
	switch {
	case len(values) == 0:
		return text + "?" + requested
	case values.Get(param) != "":
		return text
	}
	return text + "&" + requested
}
