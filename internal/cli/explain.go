package cli

import (
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"slipway.dev/slipway/internal/edge/admin"
	"slipway.dev/slipway/internal/ingress/snapshot"
)

// siteExplanation is an explanation with what a cluster adds to it.
type siteExplanation struct {
	*admin.Explanation
	// Certificate is the one that clients of the host are shown.
	Certificate *shownCertificate `json:"certificate,omitempty"`
	// Refusals are those of the Ingress that takes the request.
	Refusals []lintFinding `json:"refusals,omitempty"`
	// Others are Ingresses with this host that are not served, or not by this
	// edge.
	Others []string `json:"others,omitempty"`
}

type shownCertificate struct {
	Secret   string    `json:"secret"`
	NotAfter time.Time `json:"notAfter"`
}

func explainCommand() *cobra.Command {
	given := &offlineFlags{}
	var method, entryPoint string
	var headers []string
	output := "text"
	command := &cobra.Command{
		Use:   "explain URL",
		Short: "Say which Ingress, rule and Service take a request, or why none does",
		Long: `Reads the Ingresses of a cluster, or manifests with -f, as the edge does, and
says what would become of a request: the Ingress and rule that take it and why,
its policies, Service, endpoints and certificate, and why others do not. The
cluster is that of KUBECONFIG, or of the options of the edge. No request is sent.
To ask a running edge about what it serves now, use: slipway edge explain.`,
		Example: `  slipway explain https://shop.example.com/cart
  slipway explain http://shop.example.com/ -f deploy/ --method POST --header 'X-Tenant: blue'`,
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			if output != "text" && output != "json" {
				return usageError{fmt.Errorf("--output %q is neither text nor json", output)}
			}
			judge, err := given.load(command)
			if err != nil {
				return err
			}
			defer judge.close()
			values := url.Values{"url": args, "method": {method}, "header": headers}
			if entryPoint != "" {
				values.Set("entryPoint", entryPoint)
			}
			explanation, err := judge.explain(values)
			if err != nil {
				return usageError{err}
			}
			if output == "json" {
				return writeJSON(command.OutOrStdout(), explanation)
			}
			_, err = io.WriteString(command.OutOrStdout(), explanation.Explanation.Prose()+siteText(explanation))
			return err
		},
	}
	given.add(command)
	command.Flags().StringVar(&method, "method", "GET", "method of the request")
	command.Flags().StringArrayVar(&headers, "header", nil, "header of the request, as 'Name: value'; may be repeated")
	command.Flags().StringVar(&entryPoint, "entry-point", "", "entry point that the request comes to; the first that fits the URL when empty")
	command.Flags().StringVar(&output, "output", output, "how to print it: text or json")
	return command
}

// explain says what would become of a request.
func (o *offline) explain(values url.Values) (*siteExplanation, error) {
	explained, err := admin.Explain(o.server, values)
	if err != nil {
		return nil, err
	}
	out := &siteExplanation{Explanation: explained}
	host := explained.Request.Host
	if explained.Request.TLS {
		out.Certificate = o.certificateOf(host)
	}
	winner := snapshot.Ref{}
	if explained.Rule != nil {
		winner = snapshot.Ref{Kind: snapshot.Ingress, Namespace: explained.Rule.Namespace, Name: explained.Rule.Name}
	}
	for _, refusal := range o.engine.Refusals() {
		if refusal.Object == winner || explained.Rule == nil && o.hasHost(refusal.Object, host) {
			out.Refusals = append(out.Refusals, lintFinding{
				Object: refusal.Object.String(), Field: refusal.Field, Reason: refusal.Reason, Message: refusal.Message,
			})
		}
	}
	_, others := o.sites()
	for _, ref := range others {
		if o.hasHost(ref, host) {
			out.Others = append(out.Others, ref.String()+" has this host, but "+o.classText(ref))
		}
	}
	return out, nil
}

// certificateOf is the certificate with the exact name, or else the wildcard.
func (o *offline) certificateOf(host string) *shownCertificate {
	_, parent, _ := strings.Cut(host, ".")
	for _, name := range []string{host, "*." + parent} {
		for _, certificate := range o.server.Table().Certificates {
			if !slices.Contains(certificate.Hosts, name) {
				continue
			}
			for _, info := range o.server.Certificates() {
				if info.ID.Namespace == certificate.ID.Namespace && info.ID.Name == certificate.ID.Name {
					return &shownCertificate{Secret: certificate.ID.String(), NotAfter: info.NotAfter}
				}
			}
		}
	}
	return nil
}

// hasHost reports whether an Ingress has rules for a host by name.
func (o *offline) hasHost(ref snapshot.Ref, host string) bool {
	object := o.facts.Ingress(ref.Namespace, ref.Name)
	if ref.Kind != snapshot.Ingress || object == nil {
		return false
	}
	for _, rule := range object.Spec.Rules {
		if strings.EqualFold(rule.Host, host) {
			return true
		}
	}
	return false
}

// classText says why an Ingress is not ours.
func (o *offline) classText(ref snapshot.Ref) string {
	object := o.facts.Ingress(ref.Namespace, ref.Name)
	if class := object.Spec.IngressClassName; class != nil {
		return fmt.Sprintf("its class %q is not served by this edge", *class)
	}
	if class := object.Annotations["kubernetes.io/ingress.class"]; class != "" {
		return fmt.Sprintf("its annotation kubernetes.io/ingress.class names %q, which this edge does not serve", class)
	}
	return "it has no class, and this edge serves only its own"
}

// siteText is what a cluster adds, for people.
func siteText(e *siteExplanation) string {
	var out strings.Builder
	line := func(format string, args ...any) { out.WriteString(printable(fmt.Sprintf(format, args...)) + "\n") }
	switch {
	case e.Certificate != nil:
		line("The certificate is that of Secret %s, good until %s.", e.Certificate.Secret, e.Certificate.NotAfter.Format(time.DateOnly))
	case e.Request.TLS:
		line("No Ingress has a certificate for this host: clients get the default one.")
	}
	if len(e.Refusals) > 0 {
		line("Refused:")
	}
	for _, refusal := range e.Refusals {
		line("  %s %s: %s", refusal.Object, refusal.Field, refusal.Message)
	}
	for _, other := range e.Others {
		line("%s.", other)
	}
	if out.Len() == 0 {
		return ""
	}
	return "\n" + out.String()
}
