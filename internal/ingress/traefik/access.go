package traefik

import (
	"cmp"
	"crypto/sha1"
	"encoding/base64"
	"math"
	"net/netip"
	"strings"
	"time"
	"unicode"

	corev1 "k8s.io/api/core/v1"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// ipAllowList converts an allow list. An empty one is a fault: it would reject every
// client, which is rarely meant.
func ipAllowList(r *record) *route.Policy {
	filter := &route.IPFilter{Status: int(r.count("rejectStatusCode"))}
	ranges := r.texts("sourceRange")
	if len(ranges) == 0 {
		r.fault("sourceRange", refusal.Invalid, "no client is allowed: list addresses or networks such as 10.0.0.0/8")
	}
	filter.Allow = networks(r, "sourceRange")
	// A fault on an unsupported strategy is required here: with another client
	// address the list would admit other clients.
	strategy := r.inner("ipStrategy")
	filter.Client = addressStrategy(strategy)
	strategy.refuse("ipv6Subnet", "write the network into sourceRange")
	strategy.rest()
	r.rest()
	return &route.Policy{IPFilter: filter}
}

// network parses a network or a single address.
func network(text string) (netip.Prefix, error) {
	if strings.Contains(text, "/") {
		return netip.ParsePrefix(text)
	}
	address, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Prefix{}, err
	}
	// A zone is local to a host and never part of a client address.
	return netip.PrefixFrom(address.WithZone(""), address.BitLen()), nil
}

// addressStrategy reads which address of X-Forwarded-For is the client; nil for that of
// the entry point. A depth wins over excluded addresses, as in Traefik.
func addressStrategy(r *record) *route.ClientSource {
	depth, excluded := r.count("depth"), networks(r, "excludedIPs")
	switch {
	case depth > 0:
		return &route.ClientSource{Depth: int(min(depth, math.MaxInt32))}
	case len(excluded) > 0:
		return &route.ClientSource{Excluded: excluded}
	default:
		return nil
	}
}

// basicAuth converts basic authentication, with the defaults of Traefik for realm and
// header.
func (s *step) basicAuth(r *record) *route.Policy {
	auth := &route.BasicAuth{
		// Browsers store passwords by realm, so a migrated host keeps Traefik's.
		Realm: cmp.Or(r.text("realm"), "traefik"), UserHeader: r.text("headerField"), KeepAuthorization: !r.flag("removeHeader"),
	}
	name := r.text("secret")
	r.rest()
	// The source records the Secret as a dependency even if it is missing, so
	// that its creation triggers a new resolve.
	body, fault := s.source.Secret(name)
	if fault != nil {
		r.fault("secret", fault.Reason, "%s", fault.Message)
		return nil
	}
	users, problem := usersOf(body)
	if problem != "" {
		r.fault("secret", refusal.Invalid, "the Secret %s/%s %s", body.Namespace, body.Name, problem)
		return nil
	}
	auth.Users = route.NewSecret(users)
	return &route.Policy{BasicAuth: auth}
}

// usersOf returns the user lines of a Secret: its field users, or its only field, or
// the user and password of a Secret of type kubernetes.io/basic-auth. The problem
// never contains its data.
func usersOf(body *snapshot.SecretBody) (users, problem string) {
	if body.Type == string(corev1.SecretTypeBasicAuth) {
		user, password := string(body.Data[corev1.BasicAuthUsernameKey]), body.Data[corev1.BasicAuthPasswordKey]
		if len(password) == 0 || !plainUser(user) {
			return "", "has no password, or no username without colon, spaces at its ends and control characters: give both"
		}
		// A hash without salt, so that the same Secret always gives the same table.
		// It protects nothing: the password itself is in the Secret.
		sum := sha1.Sum(password)
		return user + ":{SHA}" + base64.StdEncoding.EncodeToString(sum[:]) + "\n", ""
	}
	lines, found := body.Data["users"]
	if !found && len(body.Data) == 1 {
		for _, only := range body.Data {
			lines = only
		}
	}
	switch {
	case len(lines) == 0 && len(body.Data) > 1:
		return "", "has several fields and none called users: name the field with the lines of htpasswd users"
	case len(lines) == 0:
		return "", "has no users: give the lines of an htpasswd file"
	}
	return string(lines), checkUsers(string(lines))
}

// plainUser reports whether a user name can be part of a line.
func plainUser(user string) bool {
	return user != "" && user == strings.TrimSpace(user) && !strings.HasPrefix(user, "#") &&
		!strings.Contains(user, ":") && !strings.ContainsFunc(user, unicode.IsControl)
}

// checkUsers finds lines that the edge cannot verify, so that no client could
// pass. Its messages have line numbers and never quote a line. A user twice is
// refused, because the edge and Traefik could choose different lines.
func checkUsers(lines string) (problem string) {
	seen := map[string]bool{}
	for line := range strings.SplitSeq(lines, "\n") {
		line = strings.Trim(line, " \t\r")
		if line == "" || line[0] == '#' {
			continue
		}
		user, hash, found := strings.Cut(line, ":")
		known := false
		// Only the prefix is checked: the edge validates the rest of the hash.
		for _, form := range []string{"$2a$", "$2b$", "$2y$", "$apr1$", "{SHA}"} {
			known = known || strings.HasPrefix(hash, form)
		}
		if !found || user == "" || !known {
			return "has a line that is not USER:HASH with a hash of bcrypt, apr1 or {SHA}: make it with htpasswd -B"
		}
		if seen[user] {
			return "has a user twice: remove one of the lines"
		}
		seen[user] = true
	}
	if len(seen) == 0 {
		return "has no users: give the lines of an htpasswd file"
	}
	return ""
}

// authWait is the timeout of Traefik for the authentication server.
const authWait = 30 * time.Second

// forwardAuth converts forward authentication. The server must be a Service, see
// authAddress.
func (s *step) forwardAuth(r *record) *route.Policy {
	auth := &route.ForwardAuth{
		ResponseHeaders: r.texts("authResponseHeaders"),
		RequestHeaders:  r.texts("authRequestHeaders"),

		ResponseHeadersRegexp: r.text("authResponseHeadersRegex"),
		SigninURL:             r.text("authSigninURL"),
		Timeout:               route.Duration(authWait),
	}
	s.authAddress(r, auth)
	// Traefik's default for maxBodySize is -1, no limit. The edge requires one:
	// it buffers the body to send it twice.
	forward, most := r.flag("forwardBody"), r.whole("maxBodySize")
	switch {
	case forward && most <= 0:
		r.fault("maxBodySize", refusal.Unsupported, "the body is held in memory, so it needs a limit: give the most bytes that may be forwarded")
	case forward:
		auth.MaxBodyBytes = most
	}
	if reply := r.whole("maxResponseBodySize"); reply > 0 {
		auth.MaxResponseBytes = reply
	}
	// The entry point decides which X-Forwarded headers are trusted. A Location
	// is always passed on unchanged.
	r.ignore("trustForwardHeader", "preserveLocationHeader")
	r.refuse("addAuthCookiesToResponse", "let the backend set the cookies")
	r.refuse("headerField", "the log has no user of forwardAuth; remove it")
	r.refuse("preserveRequestMethod", "the sub-request is a GET, and X-Forwarded-Method has the method of the request")
	tls := r.inner("tls")
	// The server is a Service here, and TLS to a Service is set on the Service.
	for _, name := range []string{"caSecret", "certSecret", "insecureSkipVerify"} {
		tls.refuse(name, "make a ServersTransport, and name it in service.serverstransport of the Service")
	}
	tls.ignore("caOptional")
	tls.rest()
	r.rest()
	return &route.Policy{ForwardAuth: auth}
}
