package route

import "slipway.dev/slipway/api/refusal"

// Validate returns the problems of the rule on its own. References are checked by
// [Table.Validate] and by the compiler.
func (rule *Rule) Validate() []Problem {
	r := report{subject: rule.ID}
	rule.check(&r)
	return r.problems
}

// check validates every field. A rule has backends or a response; a fallback has no
// match, because it serves what the others leave over.
func (rule *Rule) check(r *report) {
	checkID(r, rule.ID)
	checkEntryPointNames(r, rule.EntryPoints)
	if rule.Listener != (ListenerID{}) {
		rule.Listener.check(r, "listener")
		if len(rule.EntryPoints) > 0 {
			r.add("listener", refusal.Conflict, "the rule has entry points too; remove one of the two")
		}
	}
	checkCreated(r, rule.Created)
	if rule.Host != "" {
		checkHost(r, "host", rule.Host)
	}
	rule.HostOwner.check(r)
	r.enter("match")
	rule.Match.check(r)
	r.leave()
	if rule.Fallback && (rule.Match.Path != (PathMatch{}) || rule.Match.Conditions() > 0) {
		r.add("fallback", refusal.Conflict, "a fallback takes every request that is left over; remove its match")
	}
	switch {
	case len(rule.Backends) > 0 && rule.Response != nil:
		r.add("response", refusal.Conflict, "there are backends too; remove one of the two")
	case len(rule.Backends) == 0 && rule.Response == nil:
		r.add("backends", refusal.Required, "nothing serves the requests; add a backend or a response")
	}
	checkBackendRefs(r, rule.Backends)
	rule.Rewrite.check(r)
	if rule.Rewrite != nil && len(rule.Backends) == 0 {
		r.add("rewrite", refusal.Conflict, "there is no backend that would get it; remove it")
	}
	rule.Response.check(r)
	checkPolicies(r, rule.Policies)
	rule.Directives.check(r)
	rule.Timeouts.check(r)
	rule.Sticky.check(r)
	if rule.Sticky != nil && len(rule.Backends) == 0 {
		r.add("sticky", refusal.Conflict, "there is no backend to stick to; remove the cookie")
	}
}

// check validates the owner of a host. Without a namespace there is none, and
// nothing can follow from it.
func (owner HostOwner) check(r *report) {
	r.enter("hostOwner")
	checkOptionalName(r, "namespace", owner.Namespace)
	if owner.Namespace == "" && (owner.Exclusive || owner.Behind) {
		r.add("namespace", refusal.Required, "the owner has no name; name the namespace that the host belongs to")
	}
	r.leave()
}

// check validates a response of the edge itself.
func (response *Response) check(r *report) {
	if response == nil {
		return
	}
	r.enter("response")
	if response.Status < 200 || response.Status > 599 {
		r.add("status", refusal.Invalid, "%d is not an HTTP status from 200 to 599", response.Status)
	}
	checkOptionalName(r, "reason", string(response.Reason))
	checkText(r, "message", response.Message)
	response.checkBody(r)
	if response.Redirect != nil {
		checkRedirectStatus(r, response.Status)
		r.enter("redirect")
		response.Redirect.check(r)
		r.leave()
	}
	r.leave()
}

// check validates the parts, which become a URL. A prefix can be replaced by nothing.
func (p *Redirect) check(r *report) {
	checkOptionalChoice(r, "scheme", p.Scheme, SchemeHTTP, SchemeHTTPS)
	checkDestination(r, p.Host, p.Path, p.ReplacePrefix)
}

// check validates what a backend gets.
func (p *Rewrite) check(r *report) {
	if p == nil {
		return
	}
	r.enter("rewrite")
	if *p == (Rewrite{}) {
		r.add("", refusal.Required, "nothing is rewritten; give a host or a path")
	}
	checkDestination(r, p.Host, p.Path, p.ReplacePrefix)
	r.leave()
}

// checkDestination validates host and path of a redirect or a rewrite; all are
// optional.
func checkDestination(r *report, host, path, replacePrefix string) {
	if host != "" {
		checkHost(r, "host", host)
		if _, wildcard := WildcardParent(host); wildcard {
			r.add("host", refusal.Invalid, "requests cannot be sent to a wildcard; name a host")
		}
	}
	if path != "" {
		checkPath(r, "path", path)
	}
	if replacePrefix != "" {
		checkPath(r, "replacePrefix", replacePrefix)
	}
}

// checkBody allows a body for a configured response only: others would reveal
// details of the table to clients.
func (response *Response) checkBody(r *report) {
	if response.Body == "" {
		return
	}
	checkText(r, "body", response.Body)
	switch {
	case response.Reason != ReasonConfigured:
		r.add("body", refusal.Conflict, "only a response with the reason %s has a body; remove it", ReasonConfigured)
	case response.Status == 204 || response.Status == 304:
		r.add("body", refusal.Conflict, "a response with status %d has no body; remove it", response.Status)
	case len(response.Body) > MaxResponseBody:
		r.add("body", refusal.TooMany, "it has %d bytes; at most %d are possible", len(response.Body), MaxResponseBody)
	}
}

// Validate returns the problems of the route on its own.
func (tcp *TCPRoute) Validate() []Problem {
	r := report{subject: tcp.ID}
	tcp.check(&r)
	return r.problems
}

// check validates every field. A TCP route must name its entry points, and its
// policies can only be those that need no request.
func (tcp *TCPRoute) check(r *report) {
	checkID(r, ID(tcp.ID))
	bound := tcp.Listener != (ListenerID{})
	if bound {
		tcp.Listener.check(r, "listener")
	}
	switch {
	case bound && len(tcp.EntryPoints) > 0:
		r.add("entryPoints", refusal.Conflict, "a route of a listener has no entry points; remove them")
	case !bound && len(tcp.EntryPoints) == 0:
		r.add("entryPoints", refusal.Required, "a TCP route names the entry points that it takes connections of")
	}
	checkEntryPointNames(r, tcp.EntryPoints)
	checkCreated(r, tcp.Created)
	tcp.HostOwner.check(r)
	if tcp.ServerName != "" {
		checkHost(r, "serverName", tcp.ServerName)
	}
	checkChoice(r, "tls", tcp.TLS, TLSPlain, TLSTerminate, TLSPassthrough)
	if tcp.TLS == TLSPlain && tcp.ServerName != "" {
		r.add("serverName", refusal.Conflict, "a plain connection has no server name; remove it, or terminate or pass TLS")
	}
	if len(tcp.Backends) == 0 {
		r.add("backends", refusal.Required, "nothing takes the connections; add a backend")
	}
	checkBackendRefs(r, tcp.Backends)
	for i := range tcp.Backends {
		if tcp.Backends[i].changesHeaders() {
			r.addItem("backends", i, refusal.Invalid, "a connection has no headers; remove those of the backend")
		}
	}
	checkPolicies(r, tcp.Policies)
	for i := range tcp.Policies {
		switch tcp.Policies[i].Action().(type) {
		case nil, *IPFilter, *InFlight:
		default:
			r.addItem("policies", i, refusal.Invalid, "a TCP route can have the policies ipFilter and inFlight only")
		}
	}
	if tcp.Listener.UDP && (tcp.TLS != TLSPlain || len(tcp.Policies) > 0) {
		r.add("listener", refusal.Conflict, "datagrams are passed on as they are; set tls to plain, and remove the policies")
	}
	tcp.Timeouts.check(r)
}

// checkID validates the parts of an identity that comes from an object.
func checkID(r *report, id ID) {
	r.enter("id")
	checkName(r, "name", id.Name)
	checkOptionalName(r, "namespace", id.Namespace)
	checkOptionalName(r, "kind", id.Kind)
	checkOptionalName(r, "variant", id.Variant)
	if id.Rule < 0 {
		r.add("rule", refusal.Invalid, "a position is 0 or more")
	}
	if id.Path < 0 {
		r.add("path", refusal.Invalid, "a position is 0 or more")
	}
	r.leave()
}

// checkEntryPointNames validates names; that they exist is for references.
func checkEntryPointNames(r *report, names []string) {
	if len(names) > MaxEntryPoints {
		r.add("entryPoints", refusal.TooMany, "there are %d; at most %d are possible", len(names), MaxEntryPoints)
	}
}

// check validates the conditions, and their number: each is tested for every
// request that comes to the rule.
func (m *Match) check(r *report) {
	r.enter("path")
	m.Path.check(r)
	r.leave()
	m.checkPathOrder(r)
	checkOptionalChoice(r, "scheme", m.Scheme, SchemeHTTP, SchemeHTTPS)
	for i, method := range m.Methods {
		if !validMethod(method) {
			r.addItem("methods", i, refusal.Invalid, "%q is not a method; write it in capitals, such as GET", method)
		}
	}
	if count := len(m.Headers) + len(m.Query) + len(m.Methods) + len(m.Further); count > MaxConditions {
		r.add("", refusal.TooMany, "there are %d conditions; at most %d are possible", count, MaxConditions)
		return
	}
	for i := range m.Headers {
		r.enterItem("headers", i)
		checkHeaderName(r, "name", m.Headers[i].Name)
		m.Headers[i].check(r)
		r.leave()
	}
	for i := range m.Query {
		r.enterItem("query", i)
		m.Query[i].checkParameter(r)
		r.leave()
	}
	for i := range m.Further {
		r.enterItem("further", i)
		m.Further[i].check(r)
		r.leave()
	}
}

// check validates the part of the condition, of which there is one.
func (c *Condition) check(r *report) {
	parts := 0
	part := func(set bool, check func()) {
		if set {
			parts++
			check()
		}
	}
	part(c.Host != "", func() { checkHost(r, "host", c.Host) })
	part(c.HostRegexp != "", func() { checkExpressionField(r, "hostRegexp", c.HostRegexp) })
	part(c.Path != nil, func() {
		r.enter("path")
		c.Path.check(r)
		if *c.Path == (PathMatch{}) {
			r.add("type", refusal.Required, "set how the path is matched: exact, prefix, characterPrefix or regexp")
		}
		r.leave()
	})
	part(c.Method != "", func() {
		if !validMethod(c.Method) {
			r.add("method", refusal.Invalid, "%q is not a method; write it in capitals, such as GET", c.Method)
		}
	})
	part(c.Header != nil, func() {
		r.enter("header")
		checkHeaderName(r, "name", c.Header.Name)
		c.Header.check(r)
		r.leave()
	})
	part(c.Query != nil, func() {
		r.enter("query")
		c.Query.checkParameter(r)
		r.leave()
	})
	part(len(c.Clients) > 0, func() { checkPrefixes(r, "clients", c.Clients) })
	if parts != 1 {
		r.add("", refusal.Invalid, "a condition is about one part of a request, and here are %d", parts)
	}
}

// checkPathOrder allows a text for expressions only: other paths have their own
// order.
func (m *Match) checkPathOrder(r *report) {
	checkText(r, "pathOrder", m.PathOrder)
	switch {
	case m.PathOrder != "" && m.Path.Type != PathRegexp:
		r.add("pathOrder", refusal.Conflict, "only an expression has it; remove it, or set the path's type to regexp")
	case len(m.PathOrder) > MaxPathLength:
		r.add("pathOrder", refusal.TooMany, "it has %d bytes; at most %d are possible", len(m.PathOrder), MaxPathLength)
	}
}

// check validates the path for its type: a prefix has to be canonical, an
// expression has to be RE2 and small.
func (p PathMatch) check(r *report) {
	switch p.Type {
	case "":
		if p.Value != "" {
			r.add("type", refusal.Required, "set how the path is matched: exact, prefix, characterPrefix or regexp")
		}
	case PathExact, PathPrefix, PathCharacterPrefix:
		checkPath(r, "value", p.Value)
	case PathRegexp:
		checkExpressionField(r, "value", p.Value)
	default:
		r.add("type", refusal.Invalid, "%q is none of exact, prefix, characterPrefix, regexp", p.Type)
	}
}

// checkParameter validates a condition on a query parameter.
func (v *ValueMatch) checkParameter(r *report) {
	if v.Name == "" {
		r.add("name", refusal.Required, "the parameter has no name")
	}
	checkText(r, "name", v.Name)
	v.check(r)
}

// check validates a condition on a header or a query parameter.
func (v *ValueMatch) check(r *report) {
	checkText(r, "value", v.Value)
	checkOptionalChoice(r, "type", v.Type, ValueExact, ValueRegexp, ValuePresent)
	switch {
	case v.Type == ValueRegexp:
		checkExpressionField(r, "value", v.Value)
	case v.Type == ValuePresent && v.Value != "":
		r.add("value", refusal.Conflict, "the type present fits every value; remove the value or choose another type")
	}
}

// checkBackendRefs validates the list of backends and the sum of its weights.
func checkBackendRefs(r *report, refs []BackendRef) {
	if len(refs) > MaxBackendRefs {
		r.add("backends", refusal.TooMany, "there are %d; at most %d are possible", len(refs), MaxBackendRefs)
		return
	}
	checkFallback(r, refs)
	for i := range refs {
		refs[i].check(r, i)
		for j := range i {
			if refs[i].Backend == refs[j].Backend && !refs[i].changesHeaders() && !refs[j].changesHeaders() {
				r.enterItem("backends", i)
				r.add("backend", refusal.Duplicate, "%s is listed twice; add up the weights", refs[i].Backend)
				r.leave()
				break
			}
		}
	}
}

// checkFallback allows one fallback, which is a backend, beside others that exist: the share of
// an error is an error.
func checkFallback(r *report, refs []BackendRef) {
	fallbacks, usable := 0, 0
	for i := range refs {
		switch {
		case refs[i].Fallback && refs[i].Status != 0:
			r.addItem("backends", i, refusal.Conflict, "a fallback is a backend; remove the status")
		case refs[i].Fallback:
			fallbacks++
		case refs[i].Status == 0:
			usable++
		}
	}
	if fallbacks > 1 || fallbacks == 1 && usable == 0 {
		r.add("backends", refusal.Conflict, "a list has one fallback at most, beside another backend")
	}
}

// changesHeaders reports whether the share differs from another one of its backend.
func (ref *BackendRef) changesHeaders() bool {
	return ref.RequestHeaders != nil || ref.ResponseHeaders != nil
}

// check allows a backend or the status of an error, not both.
func (ref *BackendRef) check(r *report, i int) {
	r.enterItem("backends", i)
	defer r.leave()
	if ref.RequestHeaders != nil {
		r.enter("requestHeaders")
		ref.RequestHeaders.check(r)
		r.leave()
	}
	if ref.ResponseHeaders != nil {
		r.enter("responseHeaders")
		ref.ResponseHeaders.check(r)
		r.leave()
	}
	if ref.Status == 0 {
		return
	}
	if ref.Status < 400 || ref.Status > 599 {
		r.add("status", refusal.Invalid, "%d is not the status of an error, from 400 to 599", ref.Status)
	}
	if ref.Backend != (BackendID{}) {
		r.add("status", refusal.Conflict, "there is a backend too; remove one of the two")
	}
}

// check refuses negative durations; 0 means the default.
func (t Timeouts) check(r *report) {
	r.enter("timeouts")
	checkDuration(r, "connect", t.Connect)
	checkDuration(r, "header", t.Header)
	checkDuration(r, "idle", t.Idle)
	checkDuration(r, "attempt", t.Attempt)
	checkDuration(r, "total", t.Total)
	r.leave()
}

// check validates the attributes, which become part of a Set-Cookie header.
func (s *StickyCookie) check(r *report) {
	if s == nil {
		return
	}
	r.enter("sticky")
	if s.Name != "" && !validToken(s.Name) {
		r.add("name", refusal.Invalid, "%q is not a name that a cookie can have", s.Name)
	}
	if !validCookieAttribute(s.Path) {
		r.add("path", refusal.Invalid, "the path of a cookie has no semicolon and no control characters")
	}
	if !validCookieAttribute(s.Domain) {
		r.add("domain", refusal.Invalid, "the domain of a cookie has no semicolon and no control characters")
	}
	checkOptionalChoice(r, "sameSite", s.SameSite, SameSiteNone, SameSiteLax, SameSiteStrict)
	if s.SameSite == SameSiteNone && !s.Secure {
		r.add("sameSite", refusal.Conflict, "browsers drop a cookie with none that is not secure; set secure")
	}
	checkDuration(r, "maxAge", s.MaxAge)
	r.leave()
}
