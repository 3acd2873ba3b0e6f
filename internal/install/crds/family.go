package crds

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	argo "slipway.dev/slipway/api/argo/v1alpha1"
	codefresh "slipway.dev/slipway/api/codefresh/v1beta1"
	"slipway.dev/slipway/api/declare"
	"slipway.dev/slipway/api/gatewayapi"
	rollouts "slipway.dev/slipway/api/rollouts/v1alpha1"
	own "slipway.dev/slipway/api/v1alpha1"
)

// Family is a project whose definitions go together.
type Family string

// The families. The chart brings ArgoCD, Slipway and Promotions, and the program GatewayAPI and
// Rollouts, for runtimes that serve them; the others can be adopted as well, so that one release is
// named for all of them (R22, R26).
const (
	ArgoCD     Family = "argocd"
	Slipway    Family = "slipway"
	Promotions Family = "promotions"
	GatewayAPI Family = "gateway"
	Rollouts   Family = "rollouts"
	Workflows  Family = "workflows"
	Events     Family = "events"
)

// Families returns all families.
func Families() []Family {
	return []Family{ArgoCD, Slipway, Promotions, GatewayAPI, Rollouts, Workflows, Events}
}

// ParseFamilies parses names of families, also several with commas. Without
// names it returns nil, which selects those of the chart.
func ParseFamilies(names []string) ([]Family, error) {
	var chosen []Family
	for _, each := range names {
		for name := range strings.SplitSeq(each, ",") {
			family := Family(strings.ToLower(strings.TrimSpace(name)))
			if !slices.Contains(Families(), family) {
				return nil, fmt.Errorf("%q is no family of definitions: choose of %s", name, listed(Families()))
			}
			if !slices.Contains(chosen, family) {
				chosen = append(chosen, family)
			}
		}
	}
	return chosen, nil
}

// listed joins the names of families for an error message.
func listed(families []Family) string {
	var names []string
	for _, each := range families {
		names = append(names, string(each))
	}
	return strings.Join(names, ", ")
}

// definition is a CustomResourceDefinition by name.
type definition struct {
	name   string
	family Family
	// text is its manifest, empty if neither the chart nor the program has it.
	text []byte
	// gateway is set for one of Gateway API. It decides what is replaced.
	gateway *gatewayapi.Definition
}

// replaces reports whether the definition may take the place of one with these
// annotations that belongs to the release. Definitions of Gateway API are shared with
// other controllers, and are never downgraded.
func (d definition) replaces(annotations map[string]string) bool {
	return d.gateway == nil || d.gateway.Replaces(annotations)
}

// object decodes the chart's manifest.
func (d definition) object() (*unstructured.Unstructured, error) {
	text, err := yaml.YAMLToJSON(d.text)
	if err != nil {
		return nil, fmt.Errorf("read the chart's definition of %s: %w", d.name, err)
	}
	made := &unstructured.Unstructured{}
	return made, made.UnmarshalJSON(text)
}

// names returns the definitions of a project that neither the chart nor the program has.
func (f Family) names() []string {
	switch f {
	case Rollouts:
		return []string{"experiments"}
	case Workflows:
		return []string{"clusterworkflowtemplates", "cronworkflows", "workflowartifactgctasks", "workfloweventbindings", "workflows", "workflowtaskresults", "workflowtasksets", "workflowtemplates"}
	case Events:
		return []string{"eventbus", "eventsources", "sensors"}
	case ArgoCD, Slipway, Promotions, GatewayAPI:
	}
	return nil
}

// definitions returns those of some families, sorted by name.
func definitions(families []Family) ([]definition, error) {
	var made []definition
	for _, family := range families {
		brought, err := family.brought()
		if err != nil {
			return nil, err
		}
		made = append(made, brought...)
		// The other projects share the API group of Argo CD, and only the names
		// of their definitions are needed.
		for _, name := range family.names() {
			made = append(made, definition{name: name + "." + argo.Group, family: family})
		}
	}
	slices.SortFunc(made, func(a, b definition) int { return strings.Compare(a.name, b.name) })
	return made, nil
}

// brought returns the definitions of a family that the chart or the program has.
func (f Family) brought() ([]definition, error) {
	if f == GatewayAPI {
		return gatewayDefinitions()
	}
	var kinds []declare.Kind
	switch f {
	case ArgoCD:
		kinds = argo.Kinds()
	case Slipway:
		kinds = own.Kinds()
	case Promotions:
		kinds = codefresh.Kinds()
	case Rollouts:
		kinds = rollouts.Kinds()
	case Workflows, Events, GatewayAPI:
	}
	var made []definition
	for _, kind := range kinds {
		text, err := kind.CRD()
		if err != nil {
			return nil, err
		}
		made = append(made, definition{name: kind.Plural + "." + kind.Group, family: f, text: text})
	}
	return made, nil
}

// gatewayDefinitions returns those of Gateway API.
func gatewayDefinitions() ([]definition, error) {
	all, err := gatewayapi.Definitions()
	if err != nil {
		return nil, err
	}
	var made []definition
	for i := range all {
		made = append(made, definition{name: all[i].Name, family: GatewayAPI, text: all[i].Text, gateway: &all[i]})
	}
	return made, nil
}
