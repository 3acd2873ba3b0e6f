package nginx

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"regexp"
	"strings"

	"slipway.dev/slipway/internal/route"
)

// accessAnnotations restrict who is served.
var accessAnnotations = []Setting{
	{
		Name: "whitelist-source-range", Support: Done, Closes: true,
		Note: "Only clients with these addresses are served; others get 403.", Examples: []string{"127.0.0.0/8", "10.0.0.0/8,127.0.0.1", "10.0.0.0/8"},
		read: setRanges(func(s *Settings) *[]netip.Prefix { return &s.Allow }),
	},
	{
		Name: "allowlist-source-range", Support: Done, Closes: true,
		Note: "As whitelist-source-range.", Examples: []string{"127.0.0.0/8", "192.0.2.1"},
		read: setRanges(func(s *Settings) *[]netip.Prefix { return &s.Allow }),
	},
	{
		Name: "denylist-source-range", Support: Done, Closes: true,
		Note: "Clients with these addresses get 403.", Examples: []string{"127.0.0.1", "10.0.0.0/8", "10.0.0.0/8, 127.0.0.0/8"},
		read: setRanges(func(s *Settings) *[]netip.Prefix { return &s.Deny }),
	},
	{
		Name: "limit-rps", Support: Done, Closes: true,
		Note: "Requests of a client in a second; others get 503.", Examples: []string{"1", "2"},
		read: setCount(func(s *Settings) *int64 { return &s.Limits.PerSecond }, math.MaxInt32),
	},
	{
		Name: "limit-rpm", Support: Done, Closes: true,
		Note: "Requests of a client in a minute; others get 503.", Examples: []string{"1", "2"},
		read: setCount(func(s *Settings) *int64 { return &s.Limits.PerMinute }, math.MaxInt32),
	},
	{
		Name: "limit-burst-multiplier", Support: Done,
		Note: "The burst of limit-rps and limit-rpm, as a multiple; the default is 5.", Examples: []string{"1", "2"},
		read: readBurst,
	},
	{
		Name: "limit-connections", Support: Done, Closes: true,
		Note: "Requests of a client at a time; others get 503.", Examples: []string{"1", "100"},
		read: setCount(func(s *Settings) *int64 { return &s.Limits.Connections }, math.MaxInt32),
	},
	{Name: "limit-whitelist", Support: Refused, Note: "the limits hold for all clients; put those without one into an Ingress with another host"},
	{Name: "limit-allowlist", Support: Refused, Note: "the limits hold for all clients; put those without one into an Ingress with another host"},
	{Name: "limit-rate", Support: Refused, Off: []string{"0"}, Note: "the edge does not slow down responses; limit the requests with limit-rps"},
	{Name: "limit-rate-after", Support: Refused, Off: []string{"0"}, Note: "the edge does not slow down responses; limit the requests with limit-rps"},
	{
		Name: "auth-type", Support: Done, Closes: true,
		Note: "`basic`: requests need a password of auth-secret. `digest` is refused.", Examples: []string{"basic"},
		read: readAuthType,
	},
	{
		Name: "auth-secret", Support: Done, Closes: true,
		Note: "Secret of the Ingress's namespace with the lines of an htpasswd file under the key auth.", Examples: []string{"users"},
		read: setText(func(s *Settings) *string { return &s.Auth.Secret }),
	},
	{Name: "auth-secret-type", Support: Refused, Closes: true, Off: []string{"auth-file"}, Note: "put the users into one htpasswd file under the key auth (auth-file)"},
	{
		Name: "auth-realm", Support: Done,
		Note: "The realm of the password prompt.", Examples: []string{"Staff only"},
		read: setText(func(s *Settings) *string { return &s.Auth.Realm }),
	},
	{Name: "satisfy", Support: Refused, Closes: true, Off: []string{"all"}, Note: "all of the restrictions hold; use two Ingresses with different hosts for any of them"},
	{
		Name: "auth-tls-secret", Support: Done, Closes: true,
		Note: "Secret, as namespace/name, with the CA certificates of clients under the key ca.crt. It is for the whole host. Backends get ssl-client-verify, ssl-client-subject-dn and ssl-client-issuer-dn.", Examples: []string{"default/ca"},
		read: setText(func(s *Settings) *string { return &s.ClientAuth.Secret }),
	},
	{
		Name: "auth-tls-verify-client", Support: Done, Closes: true,
		Note: "`on`, `optional`, `optional_no_ca` or `off`; the default is on. With optional_no_ca nothing is verified, and ssl-client-verify is FAILED for all certificates.", Examples: []string{"on", "optional", "optional_no_ca", "off"},
		read: readVerifyClient,
	},
	{
		Name: "auth-tls-pass-certificate-to-upstream", Support: Done,
		Note: "Passes the certificate on in the header ssl-client-cert. ssl-client-verify, ssl-client-subject-dn and ssl-client-issuer-dn are removed from requests, and not set.", Examples: []string{"true", "false"},
		read: setBool(func(s *Settings) *bool { return &s.ClientAuth.Forward }),
	},
	{Name: "auth-tls-verify-depth", Support: NoEffect, Note: "A chain may have any length; a CA certificate limits it with its path length."},
	{Name: "auth-tls-error-page", Support: Refused, Note: "clients without a certificate fail in the handshake; remove it"},
	{Name: "auth-tls-match-cn", Support: Refused, Closes: true, Note: "use a CA that issues the certificates of these clients only"},
	{
		Name: "enable-cors", Support: Done,
		Note: "Responds to preflight requests, and allows other origins to read responses.", Examples: []string{"true", "false"},
		read: setBool(func(s *Settings) *bool { return &s.CORS.Enabled }),
	},
	{
		Name: "cors-allow-origin", Support: Done,
		Note: "Origins, `*` for all (the default), or `https://*.example.com` for one more label.", Examples: []string{"*", "https://one.example", "https://one.example, https://*.two.example"},
		read: readOrigins,
	},
	{
		Name: "cors-allow-methods", Support: Done,
		Note: "Methods that preflight requests allow.", Examples: []string{"GET, PUT", "GET"},
		read: setList(func(s *Settings) *[]string { return &s.CORS.Methods }),
	},
	{
		Name: "cors-allow-headers", Support: Done,
		Note: "Headers that preflight requests allow.", Examples: []string{"X-One, X-Two"},
		read: setList(func(s *Settings) *[]string { return &s.CORS.Headers }),
	},
	{
		Name: "cors-expose-headers", Support: Done,
		Note: "Headers that scripts may read.", Examples: []string{"X-One", "X-One, X-Two"},
		read: setList(func(s *Settings) *[]string { return &s.CORS.Show }),
	},
	{
		Name: "cors-allow-credentials", Support: Done,
		Note: "Allows cookies, for listed origins: browsers refuse it with `*`, and the header is left out there.", Examples: []string{"true", "false"},
		read: setBool(func(s *Settings) *bool { return &s.CORS.Credentials }),
	},
	{
		Name: "cors-max-age", Support: Done,
		Note: "Seconds for which browsers cache a preflight response.", Examples: []string{"600"},
		read: setSeconds(func(s *Settings) *route.Duration { return &s.CORS.MaxAge }),
	},
	{Name: "auth-keepalive", Support: NoEffect, Note: "Connections to Services are kept."},
	{Name: "auth-keepalive-requests", Support: NoEffect, Note: "Connections to Services are kept."},
	{Name: "auth-keepalive-share-vars", Support: NoEffect, Note: "There are no variables of nginx."},
	{Name: "auth-keepalive-timeout", Support: NoEffect, Note: "Connections to Services are kept."},
}

func readBurst(s *Settings, text string) error {
	value, err := parseCount(text, math.MaxInt16)
	if err == nil && value > 0 {
		s.Limits.Burst = value
	}
	return err
}

func readAuthType(s *Settings, text string) error {
	switch text {
	case "", "basic":
		s.Auth.Type = text
		return nil
	case "digest":
		return errors.New("digest is not supported: use basic, over TLS")
	}
	return fmt.Errorf("%.64q is not a type of authentication: use basic", text)
}

// verifyModes are the values of ssl_verify_client as modes of a TLSOption.
var verifyModes = map[string]string{"on": "verify", "optional": "verifyIfGiven", "optional_no_ca": "request", "off": ""}

func readVerifyClient(s *Settings, text string) error {
	mode, known := verifyModes[text]
	if !known {
		return fmt.Errorf("%.64q is not possible: use on, optional, optional_no_ca or off", text)
	}
	s.ClientAuth.Mode = mode
	return nil
}

// originText is what ingress-nginx admits as an origin.
var originText = regexp.MustCompile(`^(?:\*|[a-z][a-z0-9+.-]*://(?:\*\.)?[A-Za-z0-9.-]+(?::[0-9]+)?)$`)

func readOrigins(s *Settings, text string) error {
	list, err := parseList(text)
	if err != nil {
		return err
	}
	for _, origin := range list {
		if !originText.MatchString(origin) {
			return fmt.Errorf("%.64q is not an origin such as https://example.com", origin)
		}
		if strings.EqualFold(origin, "*") {
			list = []string{"*"}
			break
		}
	}
	if len(list) > 0 {
		s.CORS.Origins = list
	}
	return nil
}
