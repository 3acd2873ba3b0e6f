package controller

import (
	"maps"
	"slices"
	"strings"

	"slipway.dev/slipway/api/finding"
	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/ingress/manifest"
	"slipway.dev/slipway/internal/ingress/snapshot"
)

// nginxPrefix starts the annotations of ingress-nginx, which the edge does not read.
const nginxPrefix = "nginx.ingress.kubernetes.io/"

// nginxProtections are the annotations of ingress-nginx that restrict who is
// served, with ours. Without them the edge serves more than the author wanted;
// all others change at most how it is served.
var nginxProtections = map[string]string{
	"allowlist-source-range": "ip-filter", "whitelist-source-range": "ip-filter", "denylist-source-range": "ip-filter",
	"auth-type": "basic-auth", "auth-secret": "basic-auth",
	"auth-url": "forward-auth", "auth-signin": "forward-auth", "enable-global-auth": "forward-auth",
	"auth-tls-secret": "tls-options", "auth-tls-verify-client": "tls-options", "auth-tls-match-cn": "tls-options",
	"limit-rps": "rate-limit", "limit-rpm": "rate-limit", "limit-connections": "in-flight", "global-rate-limit": "rate-limit",
	"force-ssl-redirect": "redirect-scheme", "ssl-redirect": "redirect-scheme",
	"proxy-body-size":    "body-limit",
	"enable-modsecurity": "", "modsecurity-snippet": "", "configuration-snippet": "", "server-snippet": "", "auth-snippet": "",
}

// ignoredProtections returns a warning for each such annotation of the Ingresses
// that this edge would serve.
func (o *Offline) ignoredProtections(severity finding.Severity) (findings []manifest.Finding) {
	ours, _ := o.Sites()
	for _, ref := range ours {
		given := o.facts.Ingress(ref.Namespace, ref.Name).Annotations
		for _, name := range slices.Sorted(maps.Keys(given)) {
			suffix, nginx := strings.CutPrefix(name, nginxPrefix)
			own, protects := nginxProtections[suffix]
			if !nginx || !protects || given[name] == "false" || given[name] == "" {
				continue
			}
			advice := "protect the Ingress in another way"
			if own != "" {
				advice = "set slipway.dev/" + own
			}
			findings = append(findings, manifest.Finding{
				Severity: severity, File: o.Set.Files[ref], Object: ref.String(), Field: "metadata.annotations[" + name + "]", Reason: refusal.Ignored,
				Message: "it is an annotation of ingress-nginx and has no effect here, so the Ingress is served without this protection: " + advice,
			})
		}
	}
	return findings
}

// Refused returns how many of the Ingresses are not served as they are written, by
// the findings.
func Refused(ingresses []snapshot.Ref, findings []manifest.Finding) int {
	faulty := map[string]bool{}
	for _, found := range findings {
		faulty[found.Object] = faulty[found.Object] || found.Severity == finding.Error
	}
	count := 0
	for _, ref := range ingresses {
		if faulty[ref.String()] {
			count++
		}
	}
	return count
}
