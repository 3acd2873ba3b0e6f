package admin

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"
	"unicode"

	"slipway.dev/slipway/internal/route"
)

// printable replaces characters that a terminal would interpret.
func printable(text string) string {
	// Names come from objects that tenants write: they could contain escape sequences.
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '\ufffd'
	}, text)
}

// Prose returns the explanation for people, safe for a terminal.
func (e *Explanation) Prose() string {
	var out strings.Builder
	line := func(format string, args ...any) { out.WriteString(printable(fmt.Sprintf(format, args...)) + "\n") }
	// The request is printed as it is matched, not as it was typed.
	encrypted := "plain"
	if e.Request.TLS {
		encrypted = "encrypted"
	}
	query := ""
	if e.Request.Query != "" {
		query = "?" + e.Request.Query
	}
	at := "entry point " + e.Request.EntryPoint
	if e.Request.Listener != "" {
		at = "listener " + e.Request.Listener
	}
	from := ""
	if e.Request.Client.IsValid() {
		from = ", from " + e.Request.Client.String()
	}
	line("%s %s%s%s at %s, %s%s", e.Request.Method, e.Request.Host, e.Request.Path, query, at, encrypted, from)
	if e.Request.Rewritten {
		line("The path was given in another spelling; this is the one that is matched and forwarded.")
	}
	line("")
	switch {
	case e.Refusal != nil:
		line("It is refused with %d before any rule is matched: %s (%s).", e.Refusal.Status, e.Refusal.Message, e.Refusal.Label)
	case e.Rule == nil:
		line("No rule matches it: %d.", e.Status)
	default:
		e.served(line)
	}
	// The table is aligned before it is appended: tabwriter needs all of its lines.
	var others strings.Builder
	table := tabwriter.NewWriter(&others, 0, 0, 2, ' ', 0)
	for _, step := range e.Steps {
		if step.Decision != Wins {
			fmt.Fprintf(table, "  %s\t%s\t%s\n", printable(step.Name), printable(string(step.Decision)), printable(step.Why))
		}
	}
	_ = table.Flush() // a Builder never fails
	if others.Len() > 0 {
		out.WriteString("\nOther rules, in the order in which they are tried:\n" + others.String())
	}
	return out.String()
}

// served writes the action of the rule.
func (e *Explanation) served(line func(string, ...any)) {
	for _, step := range e.Steps {
		if step.Decision == Wins {
			line("%s serves it: %s.", step.Name, step.Why)
		}
	}
	// Settings stay JSON, on one line: they can be copied into a routes file.
	for _, policy := range e.Policies {
		var settings bytes.Buffer
		if json.Compact(&settings, policy.Settings) != nil {
			continue // it was valid JSON before
		}
		line("  policy %s %s", policy.Name, settings.String())
	}
	if e.Directives != nil {
		if text, err := json.Marshal(e.Directives); err == nil {
			line("  directives %s", text)
		}
	}
	if e.Rewrite != nil {
		line("  rewrites %s", rewriteText(e.Rewrite))
	}
	switch {
	case e.Message != "":
		line("  responds with %d itself: %s", e.Status, e.Message)
	case e.Status != 0:
		line("  responds with %d itself", e.Status)
	}
	for _, backend := range e.Backends {
		if backend.Status != 0 {
			line("  no backend%s: responds with %d", e.share(backend.BackendPart), backend.Status)
			continue
		}
		line("  backend %s%s", backend.Name, e.share(backend.BackendPart))
		// A broken backend has a transport that cannot be built, such as a missing
		// authority.
		if backend.Broken != "" {
			line("    gets nothing: %s", backend.Broken)
		}
		if len(backend.Endpoints) == 0 {
			line("    has no endpoint")
		}
		// State comes from the table, health from requests and checks.
		for _, endpoint := range backend.Endpoints {
			line("    %s %s, health %s, %d in flight", endpoint.Address, endpoint.State, endpoint.Health, endpoint.InFlight)
		}
	}
}

// rewriteText describes a rewrite.
func rewriteText(to *route.Rewrite) string {
	var parts []string
	if to.Host != "" {
		parts = append(parts, "the host to "+to.Host)
	}
	switch {
	case to.ReplacePrefix != "":
		parts = append(parts, fmt.Sprintf("the prefix %s to %s", to.ReplacePrefix, cmp.Or(to.Path, "/")))
	case to.Path != "":
		parts = append(parts, "the path to "+to.Path)
	}
	return strings.Join(parts, ", ")
}

// share returns the share of a backend, if there are others.
func (e *Explanation) share(part BackendPart) string {
	// All weights 0 means equal shares, as in route.BackendRef.
	var total uint64
	for _, backend := range e.Backends {
		total += uint64(backend.Weight)
	}
	switch {
	case len(e.Backends) == 1:
		return ""
	case total == 0: // as in route.BackendRef
		return fmt.Sprintf(", one of %d equal shares", len(e.Backends))
	}
	return fmt.Sprintf(", weight %d of %d", part.Weight, total)
}
