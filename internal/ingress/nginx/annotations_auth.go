package nginx

// The slots of the settings of external authentication: of an Ingress, and of all.
func externalAuth(s *Settings) *ExternalAuth { return &s.Auth.External }
func globalAuth(s *Settings) *ExternalAuth   { return &s.Auth.Global }

// authAnnotations let another server decide who is served.
var authAnnotations = []Setting{
	{
		Name: "auth-url", Support: Done, Closes: true,
		Note: "A sub-request to this URL decides: 2xx lets the request in, 401 and 403 refuse it, everything else is 500. Its host is that of a Service (`http://oauth2-proxy.auth.svc.cluster.local/oauth2/auth`), " +
			"`$host` or a host of an Ingress of this namespace, whose Service is used then, or, with allowExternalNameServices, any other. Path and query may have variables.",
		Examples: []string{"http://auth.default.svc.cluster.local/check", "http://auth.default.svc:80/check?from=a&uri=$escaped_request_uri", "http://auth/check/$request_method?h=$host&x=$http_x_one${cookie_user}"},
		read:     readAuthURL(externalAuth),
	},
	{
		Name: "auth-method", Support: Done, Closes: true,
		Note: "Method of the sub-request; the default is GET. With it, X-Original-URI and X-Scheme are sent, too.", Examples: []string{"GET", "POST", "HEAD"},
		read: readAuthMethod(externalAuth),
	},
	{
		Name: "auth-signin", Support: Done, Closes: true,
		Note: "After a 401 the client is redirected to this URL with 302. `rd` with the URL of the request is added, unless the URL has it.",
		Examples: []string{
			"https://login.example/oauth2/start", "https://login.example/start?rd=$escaped_request_uri", "https://login.example/start?a=b", "/oauth2/start",
			"$scheme://$best_http_host/start?rd=$scheme://$http_host$escaped_request_uri",
		},
		read: readAuthSignin(externalAuth),
	},
	{
		Name: "auth-signin-redirect-param", Support: Done, Closes: true,
		Note: "Name of the parameter in place of `rd`.", Examples: []string{"back"},
		read: readRedirectParam(externalAuth),
	},
	{
		Name: "auth-response-headers", Support: Done, Closes: true,
		Note: "Headers of the server's response that the backend gets, in place of those of the client.", Examples: []string{"X-Auth-Request-User", "X-Auth-Request-User, Authorization,X-None"},
		read: readAuthHeaders(externalAuth),
	},
	{
		Name: "auth-proxy-set-headers", Support: Done, Closes: true,
		Note: "ConfigMap, as namespace/name, with headers of the sub-request. Values may have variables.", Examples: []string{"default/auth-headers"},
		read: setText(func(s *Settings) *string { return &s.Auth.External.HeadersFrom }),
	},
	{
		Name: "auth-request-redirect", Support: Done, Closes: true,
		Note: "X-Auth-Request-Redirect of the sub-request; the default is `$request_uri`.", Examples: []string{"$scheme://$http_host$request_uri", "https://shop.example/"},
		read: readRequestRedirect(externalAuth),
	},
	{
		Name: "auth-cache-key", Support: Done, Closes: true,
		Note: "Decisions with the same text are cached, such as `$remote_addr$http_authorization`, and for each path of the Ingress apart. One with Set-Cookie, Cache-Control, Expires or Vary is not cached.", Examples: []string{"$remote_addr$http_authorization"},
		read: readCacheKey(externalAuth),
	},
	{
		Name: "auth-cache-duration", Support: Done, Closes: true,
		Note: "Statuses and how long they are cached; the default is `200 202 401 5m`.", Examples: []string{"200 202 401 5m", "200 10m, any 1s"},
		read: readCacheDuration(externalAuth),
	},
	{
		Name: "auth-always-set-cookie", Support: Done,
		Note: "The client gets the cookies of the server with every response, and not only with those with 2xx and redirects.", Examples: []string{"true", "false"},
		read: setBool(func(s *Settings) *bool { return &s.Auth.External.AlwaysSetCookie }),
	},
	{
		Name: "auth-snippet", Support: Done, Closes: true, lines: true,
		Note:     "Directives for the sub-request: `set`, `if`, `return` and `proxy_set_header`; see [snippets](#snippets). Snippets must be allowed.",
		Examples: authSnippetExamples, read: readAuthSnippet(externalAuth, false),
	},
	{
		Name: "enable-global-auth", Support: Done, Closes: true,
		Note: "`false` serves the Ingress without `global-auth-url` of the ConfigMap.", Examples: []string{"true", "false"},
		read: func(s *Settings, text string) error {
			return setBool(func(s *Settings) *bool { return &s.Auth.SkipGlobal })(s, negated(text))
		},
	},
}

// globalNote is the note of a key for all Ingresses.
const globalNote = "As the annotation without global-, for Ingresses without auth-url."

// authKeys are the keys of external authentication. The operator writes them, so the
// Service may be of any namespace.
var authKeys = []Setting{
	{
		Name: "global-auth-url", Support: Done, Closes: true,
		Note: "As auth-url, for all Ingresses without one. The Service may be of any namespace.", Examples: []string{"http://auth.default.svc.cluster.local/check"},
		read: readAuthURL(globalAuth),
	},
	{Name: "global-auth-method", Support: Done, Closes: true, Note: globalNote, Examples: []string{"GET"}, read: readAuthMethod(globalAuth)},
	{Name: "global-auth-signin", Support: Done, Closes: true, Note: globalNote, Examples: []string{"https://login.example/start"}, read: readAuthSignin(globalAuth)},
	{Name: "global-auth-signin-redirect-param", Support: Done, Closes: true, Note: globalNote, Examples: []string{"back"}, read: readRedirectParam(globalAuth)},
	{Name: "global-auth-response-headers", Support: Done, Closes: true, Note: globalNote, Examples: []string{"X-Auth-Request-User"}, read: readAuthHeaders(globalAuth)},
	{Name: "global-auth-request-redirect", Support: Done, Closes: true, Note: globalNote, Examples: []string{"$request_uri"}, read: readRequestRedirect(globalAuth)},
	{Name: "global-auth-cache-key", Support: Done, Closes: true, Note: globalNote, Examples: []string{"$remote_addr"}, read: readCacheKey(globalAuth)},
	{Name: "global-auth-cache-duration", Support: Done, Closes: true, Note: globalNote, Examples: []string{"200 1m"}, read: readCacheDuration(globalAuth)},
	{
		Name: "global-auth-snippet", Support: Done, Closes: true, lines: true, Note: globalNote + " It needs no permission.",
		Examples: authSnippetExamples, read: readAuthSnippet(globalAuth, true),
	},
	{
		Name: "global-auth-always-set-cookie", Support: Done, Note: globalNote, Examples: []string{"true"},
		read: setBool(func(s *Settings) *bool { return &s.Auth.Global.AlwaysSetCookie }),
	},
}
