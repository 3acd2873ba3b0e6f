package admin

import (
	"slices"
	"strconv"
	"strings"

	"slipway.dev/slipway/internal/route"
	"slipway.dev/slipway/internal/secret"
)

// credentialWords are parts of the names of headers that carry credentials. A table
// can set such a header, or match one.
var credentialWords = []string{"auth", "cookie", "token", "secret", "password", "passwd", "api-key", "apikey", "credential", "session", "signature"}

// carriesCredentials decides by name, because a value does not reveal what it is. It
// rather redacts too much.
func carriesCredentials(header string) bool {
	// Backends read an underscore as a hyphen, so both spellings are one name.
	name := strings.ToLower(strings.ReplaceAll(header, "_", "-"))
	return slices.ContainsFunc(credentialWords, func(word string) bool { return strings.Contains(name, word) })
}

// shownTable returns a redacted copy of the table, sorted by identity. Secrets
// redact themselves in JSON; this is for plain values.
func shownTable(table *route.Table) *route.Table {
	shown := *table
	shown.Rules = make([]*route.Rule, len(table.Rules))
	for i, rule := range table.Rules {
		shown.Rules[i] = shownRule(rule)
	}
	// A stable order makes two dumps comparable.
	slices.SortFunc(shown.Rules, func(a, b *route.Rule) int { return a.ID.Compare(b.ID) })
	shown.Backends = slices.SortedFunc(slices.Values(table.Backends), func(a, b *route.Backend) int { return a.ID.Compare(b.ID) })
	shown.TCPRoutes = slices.SortedFunc(slices.Values(table.TCPRoutes), func(a, b *route.TCPRoute) int { return a.ID.Compare(b.ID) })
	shown.Certificates = slices.SortedFunc(slices.Values(table.Certificates), func(a, b *route.Certificate) int { return a.ID.Compare(b.ID) })
	shown.Authorities = slices.SortedFunc(slices.Values(table.Authorities), func(a, b *route.Authority) int { return a.ID.Compare(b.ID) })
	return &shown
}

// shownRule returns a redacted copy of a rule.
func shownRule(rule *route.Rule) *route.Rule {
	shown := *rule
	shown.Policies = shownPolicies(rule.Policies)
	shown.Backends = slices.Clone(rule.Backends)
	for i := range shown.Backends {
		ref := &shown.Backends[i]
		ref.RequestHeaders, ref.ResponseHeaders = shownHeaders(ref.RequestHeaders), shownHeaders(ref.ResponseHeaders)
	}
	shown.Match.Headers = shownConditions(rule.Match.Headers)
	shown.Match.Query = shownConditions(rule.Match.Query)
	shown.Match.Further = shownFurther(rule.Match.Further)
	return &shown
}

// shownPolicies redacts the headers that policies set, those in chains included.
func shownPolicies(policies []route.Policy) []route.Policy {
	shown := slices.Clone(policies)
	for i := range shown {
		p := &shown[i]
		p.RequestHeaders, p.ResponseHeaders = shownHeaders(p.RequestHeaders), shownHeaders(p.ResponseHeaders)
		// Chains are copied too: the live table is shared.
		if p.Chain != nil {
			p.Chain = &route.Chain{Policies: shownPolicies(p.Chain.Policies)}
		}
	}
	return shown
}

// shownHeaders redacts the changes of headers, which can be nil. Those of requests and
// of responses are two types with the same fields.
func shownHeaders[T route.RequestHeaders | route.ResponseHeaders](headers *T) *T {
	if headers == nil {
		return nil
	}
	shown := route.RequestHeaders(*headers)
	shown.Set, shown.Add = shownValues(shown.Set), shownValues(shown.Add)
	redacted := T(shown)
	return &redacted
}

// shownConditions returns copies: the originals are the live table.
func shownConditions(conditions []route.ValueMatch) []route.ValueMatch {
	shown := slices.Clone(conditions)
	for i := range shown {
		if carriesCredentials(shown[i].Name) && shown[i].Value != "" {
			shown[i].Value = secret.Redacted
		}
	}
	return shown
}

// shownFurther returns copies, as shownConditions does.
func shownFurther(conditions []route.Condition) []route.Condition {
	shown := slices.Clone(conditions)
	for i := range shown {
		for _, value := range []**route.ValueMatch{&shown[i].Header, &shown[i].Query} {
			if *value != nil {
				*value = &shownConditions([]route.ValueMatch{**value})[0]
			}
		}
	}
	return shown
}

// furtherValues returns the conditions on headers and parameters among further ones.
func furtherValues(conditions []route.Condition) []route.ValueMatch {
	var values []route.ValueMatch
	for i := range conditions {
		for _, value := range []*route.ValueMatch{conditions[i].Header, conditions[i].Query} {
			if value != nil {
				values = append(values, *value)
			}
		}
	}
	return values
}

// shownValues returns copies, as shownConditions does.
func shownValues(values []route.HeaderValue) []route.HeaderValue {
	shown := slices.Clone(values)
	for i := range shown {
		if carriesCredentials(shown[i].Name) && shown[i].Value != "" {
			shown[i].Value = secret.Redacted
		}
	}
	return shown
}

// shownWhy returns the reason of a step, without the credentials that its rule
// matches.
func shownWhy(why string, rule *route.Rule) string {
	if rule == nil {
		return why
	}
	// The reason quotes the value of a condition that does not match.
	for _, conditions := range [][]route.ValueMatch{rule.Match.Headers, rule.Match.Query, furtherValues(rule.Match.Further)} {
		for _, condition := range conditions {
			if carriesCredentials(condition.Name) && condition.Value != "" {
				why = strings.ReplaceAll(why, strconv.Quote(condition.Value), strconv.Quote(secret.Redacted))
			}
		}
	}
	return why
}
