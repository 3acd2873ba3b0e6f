package nginx

import (
	"fmt"
	"strings"

	"slipway.dev/slipway/internal/route"
)

// backendAnnotations are about endpoints, and the connections to them.
var backendAnnotations = []Setting{
	{
		Name: "backend-protocol", Support: Done, Closes: true,
		Note:     "`HTTP` (the default), `HTTPS`, `GRPC` (HTTP/2), `GRPCS` or `AUTO_HTTP`, which is HTTP. Certificates of endpoints are not verified without proxy-ssl-verify.",
		Examples: []string{"HTTP", "AUTO_HTTP", "http"},
		read:     readProtocol,
	},
	{
		Name: "service-upstream", Support: Done,
		Note: "Requests go to the address of the Service.", Examples: []string{"false"},
		read: setBool(func(s *Settings) *bool { return &s.Backend.Native }),
	},
	{
		Name: "load-balance", Support: Done,
		Note: "`round_robin` (the default) or `ewma`, which prefers quick endpoints.", Examples: []string{"round_robin", "ewma"},
		read: readBalance,
	},
	{
		Name: "upstream-hash-by", Support: Done,
		Note:     "The same endpoint for the same `$remote_addr`, `$binary_remote_addr`, `$host`, `$uri`, `$request_uri` (without its query), `$http_NAME` or `$cookie_NAME`.",
		Examples: []string{"$remote_addr", "$http_x_user", "$host", "$request_uri"},
		read:     readHashBy,
	},
	{Name: "upstream-hash-by-subset", Support: Refused, Off: []string{"false"}, Note: "a key leads to one endpoint; remove it"},
	{Name: "upstream-hash-by-subset-size", Support: NoEffect, Note: "There are no subsets; upstream-hash-by-subset is refused."},
	{
		Name: "upstream-vhost", Support: Done, Closes: true,
		Note: "The Host header that the backend gets. Variables are refused.", Examples: []string{"other.example"},
		read: readVhost,
	},
	{
		Name: "affinity", Support: Done, Closes: true,
		Note: "`cookie` keeps a client at its endpoint.", Examples: []string{"cookie"},
		read: readAffinity,
	},
	{Name: "affinity-mode", Support: NoEffect, Note: "A client stays at its endpoint as long as that exists (persistent)."},
	{Name: "affinity-canary-behavior", Support: NoEffect, Note: "A canary and its main backend have cookies of their own, and the weight decides for each request (legacy)."},
	{
		Name: "session-cookie-name", Support: Done, Closes: true,
		Note: "Name of the cookie; the default is INGRESSCOOKIE.", Examples: []string{"stay"},
		read: setText(func(s *Settings) *string { return &s.Backend.Cookie.Name }),
	},
	{
		Name: "session-cookie-path", Support: Done,
		Note: "Path of the cookie; the default is /.", Examples: []string{"/", "/app"},
		read: setText(func(s *Settings) *string { return &s.Backend.Cookie.Path }),
	},
	{
		Name: "session-cookie-domain", Support: Done,
		Note: "Domain of the cookie.", Examples: []string{"example.com"},
		read: setText(func(s *Settings) *string { return &s.Backend.Cookie.Domain }),
	},
	{
		Name: "session-cookie-samesite", Support: Done,
		Note: "`None`, `Lax` or `Strict`. With None the cookie is secure: browsers drop others.", Examples: []string{"Lax", "Strict"},
		read: readSameSite,
	},
	{
		Name: "session-cookie-secure", Support: Done,
		Note: "Restricts the cookie to requests over TLS.", Examples: []string{"true", "false"},
		read: setBool(func(s *Settings) *bool { return &s.Backend.Cookie.Secure }),
	},
	{
		Name: "session-cookie-max-age", Support: Done,
		Note: "Seconds for which a client keeps the cookie.", Examples: []string{"3600"},
		read: setSeconds(func(s *Settings) *route.Duration { return &s.Backend.Cookie.MaxAge }),
	},
	{
		Name: "session-cookie-expires", Support: Done,
		Note: "As session-cookie-max-age, which wins.", Examples: []string{"3600"},
		read: setSeconds(func(s *Settings) *route.Duration { return &s.Backend.Cookie.Expires }),
	},
	{Name: "session-cookie-change-on-failure", Support: NoEffect, Note: "A client whose endpoint fails gets another one, and a new cookie."},
	{Name: "session-cookie-conditional-samesite-none", Support: NoEffect, Note: "Browsers that need it are no longer in use."},
	{
		Name: "proxy-ssl-secret", Support: Done, Closes: true,
		Note: "Secret with the client certificate for endpoints (tls.crt, tls.key) and their CA certificates (ca.crt).", Examples: nil,
		read: setText(func(s *Settings) *string { return &s.Backend.TLSSecret }),
	},
	{
		Name: "proxy-ssl-verify", Support: Done, Closes: true,
		Note: "`on` verifies the certificates of endpoints; the default is off.", Examples: nil,
		read: readOnOff(func(s *Settings) *bool { return &s.Backend.Verify }),
	},
	{
		Name: "proxy-ssl-name", Support: Done,
		Note: "The name that is verified and requested.", Examples: nil,
		read: setText(func(s *Settings) *string { return &s.Backend.ServerName }),
	},
	{Name: "proxy-ssl-server-name", Support: NoEffect, Note: "The name is always sent, if there is one."},
	{Name: "proxy-ssl-verify-depth", Support: NoEffect, Note: "A chain may have any length; a CA certificate limits it with its path length."},
	{Name: "proxy-ssl-ciphers", Support: Refused, Off: []string{"DEFAULT"}, Note: "the edge uses the secure cipher suites; remove it"},
	{Name: "proxy-ssl-protocols", Support: Refused, Off: []string{"TLSv1.2", "TLSv1.3", "TLSv1.2 TLSv1.3"}, Note: "the edge uses TLS 1.2 and 1.3; remove it"},
	{Name: "connection-proxy-header", Support: NoEffect, Note: "The edge keeps its connections to backends; the header concerns one connection only."},
	{
		Name: "default-backend", Support: Done,
		Note: "Service, with its first port, for the pages of custom-http-errors; without that, of 503, as when no endpoint is ready. It gets X-Code, X-Format, X-Original-URI, X-Namespace and X-Ingress-Name.", Examples: []string{"three"},
		read: setText(func(s *Settings) *string { return &s.Errors.Service }),
	},
	{
		Name: "custom-http-errors", Support: Done,
		Note: "Statuses whose pages come from default-backend, which is needed. The status stays.", Examples: []string{"404", "404,418", "500, 503"},
		read: readErrors,
	},
	{Name: "disable-proxy-intercept-errors", Support: Refused, Off: []string{"false"}, Note: "custom-http-errors replaces the pages of the application, too; leave statuses out that it has pages for"},
	{Name: "fastcgi-index", Support: Refused, Closes: true, Note: "the edge has no FastCGI; put a web server before the application"},
	{Name: "fastcgi-params-configmap", Support: Refused, Closes: true, Note: "the edge has no FastCGI; put a web server before the application"},
}

// Backend has the settings of the endpoints.
type Backend struct {
	// Protocol is the protocol; empty is HTTP/1.1.
	Protocol route.Protocol
	Native   bool
	Balance  route.BalanceMethod
	Hash     route.HashKey
	Sticky   bool
	Cookie   Cookie
	// TLSSecret has a client certificate and authorities; Verify checks endpoints.
	TLSSecret, ServerName string
	Verify                bool
}

// Cookie has the attributes of the cookie of a sticky client.
type Cookie struct {
	Name, Path, Domain string
	SameSite           route.SameSite
	Secure             bool
	MaxAge, Expires    route.Duration
}

// Errors are the statuses whose pages a Service has.
type Errors struct {
	Service  string
	Statuses []int
}

func readErrors(s *Settings, text string) error {
	list, err := parseList(text)
	if err != nil {
		return err
	}
	var statuses []int
	for _, word := range list {
		status, err := parseCount(word, 599)
		if err != nil || status < 400 {
			return fmt.Errorf("%.64q is not the status of an error, from 400 to 599", word)
		}
		statuses = append(statuses, int(status))
	}
	s.Errors.Statuses = statuses
	return nil
}

// Pages returns the policy of the pages, nil without a Service for them.
func (e *Errors) Pages(id route.PolicyID, port uint16) *route.Policy {
	statuses := e.Statuses
	if len(statuses) == 0 {
		statuses = []int{503}
	}
	pages := &route.ErrorPages{
		Backend: route.BackendID{Namespace: id.Namespace, Name: e.Service, Port: port, Variant: BackendVariant}, Path: "/",
		Headers: []route.HeaderValue{{Name: "X-Namespace", Value: id.Namespace}, {Name: "X-Ingress-Name", Value: id.Name}},
	}
	for _, status := range statuses {
		pages.Statuses = append(pages.Statuses, route.StatusRange{From: status, To: status})
	}
	id.Variant = "nginx-custom-http-errors"
	return &route.Policy{ID: id, ErrorPages: pages}
}

var protocols = map[string]route.Protocol{
	"HTTP": "", "AUTO_HTTP": "", "HTTPS": route.ProtocolTLS, "GRPC": route.ProtocolH2C, "GRPCS": route.ProtocolH2,
}

func readProtocol(s *Settings, text string) error {
	protocol, known := protocols[strings.ToUpper(text)]
	if !known {
		return fmt.Errorf("%.64q is not supported: use HTTP, HTTPS, GRPC or GRPCS", text)
	}
	s.Backend.Protocol = protocol
	return nil
}

func readBalance(s *Settings, text string) error {
	switch text {
	case "", "round_robin":
		s.Backend.Balance = route.BalanceRoundRobin
	case "ewma":
		s.Backend.Balance = route.BalanceLeastTime
	default:
		return fmt.Errorf("%.64q is not supported: use round_robin or ewma", text)
	}
	return nil
}

// hashVariables are the variables of nginx that a key can have.
var hashVariables = map[string]route.KeySource{
	"remote_addr": route.KeyClient, "binary_remote_addr": route.KeyClient, "the_real_ip": route.KeyClient,
	"host": route.KeyHost, "http_host": route.KeyHost, "uri": route.KeyPath, "request_uri": route.KeyPath,
}

func readHashBy(s *Settings, text string) error {
	name := strings.Trim(text, "${}")
	key := route.HashKey{By: hashVariables[name]}
	if key.By == "" {
		if header, found := strings.CutPrefix(name, "http_"); found && header != "" {
			key = route.HashKey{By: route.KeyHeader, Name: strings.ReplaceAll(header, "_", "-")}
		} else if cookie, found := strings.CutPrefix(name, "cookie_"); found && cookie != "" {
			key = route.HashKey{By: route.KeyCookie, Name: cookie}
		}
	}
	if key.By == "" || !strings.HasPrefix(text, "$") {
		return fmt.Errorf("%.64q is not supported: use one of $remote_addr, $host, $uri, $http_NAME, $cookie_NAME", text)
	}
	s.Backend.Hash = key
	return nil
}

func readVhost(s *Settings, text string) error {
	if strings.Contains(text, "$") {
		return fmt.Errorf("%.64q has a variable: give a host", text)
	}
	if err := checkText(text); err != nil {
		return err
	}
	s.Host = strings.ToLower(text)
	return nil
}

func readAffinity(s *Settings, text string) error {
	if text != "cookie" {
		return fmt.Errorf("%.64q is not supported: use cookie", text)
	}
	s.Backend.Sticky = true
	return nil
}

func readSameSite(s *Settings, text string) error {
	same := route.SameSite(strings.ToLower(text))
	switch same {
	case "", route.SameSiteNone, route.SameSiteLax, route.SameSiteStrict:
		s.Backend.Cookie.SameSite = same
		return nil
	}
	return fmt.Errorf("%.64q is not possible: use None, Lax or Strict", text)
}

func readOnOff(slot func(*Settings) *bool) func(*Settings, string) error {
	return func(s *Settings, text string) error {
		if text != "on" && text != "off" {
			return fmt.Errorf("%.64q is neither on nor off", text)
		}
		*slot(s) = text == "on"
		return nil
	}
}
