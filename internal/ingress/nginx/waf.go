package nginx

import (
	"errors"
	"strings"

	"slipway.dev/slipway/internal/route"
)

// WAF has the settings of the web application firewall, which is ModSecurity in
// ingress-nginx.
type WAF struct {
	// Set reports that the Ingress has the annotation, and Enabled its value.
	Set, Enabled bool
	CoreRules    bool
	Snippet      string
	// IDHeader names the request.
	IDHeader string
	// Everywhere has the settings of the ConfigMap, which hold for all Ingresses.
	Everywhere struct {
		Enabled, CoreRules bool
		Snippet            string
	}
}

// wafAnnotations are those of the web application firewall.
var wafAnnotations = []Setting{
	{
		Name: "enable-modsecurity", Support: Done, Closes: true,
		Note:     "Inspects requests and responses with the recommended settings of ModSecurity, or with modsecurity-snippet. Matches are reported; `SecRuleEngine On` in the snippet denies them. `false` turns it off for the Ingress.",
		Examples: []string{"true", "false"}, read: readWAF,
	},
	{
		Name: "enable-owasp-core-rules", Support: Done, Closes: true,
		Note: "Adds the OWASP Core Rule Set, with enable-modsecurity.", Examples: []string{"true", "false"},
		read: setBool(func(s *Settings) *bool { return &s.WAF.CoreRules }),
	},
	{
		Name: "modsecurity-snippet", Support: Done, Closes: true, lines: true,
		Note:     "Directives in place of the recommended settings, with enable-modsecurity: a [closed set](waf.md#directives).",
		Examples: []string{"SecRuleEngine On", "SecRuleEngine On\nSecRule ARGS:probe \"@streq attack\" \"id:1001,phase:1,deny,status:403\""},
		read:     setDirectives(func(s *Settings) *string { return &s.WAF.Snippet }),
	},
	{
		Name: "modsecurity-transaction-id", Support: Done,
		Note:     "`$request_id`, the name of a request in the log: its X-Request-ID, or a random one.",
		Examples: []string{"$request_id"}, read: readTransactionID,
	},
}

// wafKeys are the keys of the ConfigMap.
var wafKeys = []Setting{
	{
		Name: "enable-modsecurity", Support: Done, Note: "The firewall for all Ingresses; an Ingress turns it off with the annotation.", Examples: []string{"true"},
		read: setBool(func(s *Settings) *bool { return &s.WAF.Everywhere.Enabled }),
	},
	{
		Name: "enable-owasp-modsecurity-crs", Support: Done, Note: "Adds the OWASP Core Rule Set, with enable-modsecurity.", Examples: []string{"true"},
		read: setBool(func(s *Settings) *bool { return &s.WAF.Everywhere.CoreRules }),
	},
	{
		Name: "modsecurity-snippet", Support: Done, lines: true, Note: "Directives in place of the recommended settings. Those of an Ingress are added to them.", Examples: []string{"SecRuleEngine On"},
		read: setDirectives(func(s *Settings) *string { return &s.WAF.Everywhere.Snippet }),
	},
}

func readWAF(s *Settings, text string) error {
	err := setBool(func(s *Settings) *bool { return &s.WAF.Enabled })(s, text)
	s.WAF.Set = err == nil
	return err
}

// setDirectives returns the reader of directives.
func setDirectives(slot func(*Settings) *string) func(*Settings, string) error {
	return func(s *Settings, text string) error {
		if _, err := route.ParseDirectives(text); err != nil {
			return err
		}
		*slot(s) = text
		return nil
	}
}

func readTransactionID(s *Settings, text string) error {
	switch text {
	case "$request_id", "$req_id", "${request_id}", "$http_x_request_id":
		s.WAF.IDHeader = "X-Request-ID"
		return nil
	}
	return errors.New("only $request_id is possible: the name of a request must be its own")
}

// policy returns the policy of the firewall, nil if it is off. As in ingress-nginx, a snippet
// takes the place of the recommended settings, and the directives of an Ingress are added
// to those of the ConfigMap and win.
func (w *WAF) policy() *route.WAF {
	enabled := w.Everywhere.Enabled
	if w.Set {
		enabled = w.Enabled
	}
	if !enabled {
		return nil
	}
	const recommended = "Include @recommended"
	var parts []string
	switch {
	case w.Everywhere.Enabled && w.Everywhere.Snippet != "":
		parts = append(parts, w.Everywhere.Snippet)
	case w.Everywhere.Enabled || w.Snippet == "":
		parts = append(parts, recommended)
	}
	if w.Snippet != "" {
		parts = append(parts, w.Snippet)
	}
	if w.CoreRules || w.Everywhere.Enabled && w.Everywhere.CoreRules {
		parts = append(parts, "Include @owasp_crs")
	}
	return &route.WAF{Directives: strings.Join(parts, "\n"), IDHeader: w.IDHeader}
}
