package notify

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	yamlnode "go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/internal/gitops/notify/message"
	"slipway.dev/slipway/internal/gitops/notify/service"
)

// The objects with the settings, with the names of Argo CD.
const (
	ConfigMap = "argocd-notifications-cm"
	Secret    = "argocd-notifications-secret"
)

// Settings are those of the ConfigMap and the Secret.
type Settings struct {
	// Triggers, Templates and Services are by name. The text of a template is YAML.
	Triggers  map[string][]message.Condition
	Templates map[string]string
	Services  map[string]Service
	// Subscriptions apply to all Applications that their selector matches.
	Subscriptions []Subscription
	// DefaultTriggers are those of subscriptions without one, and ServiceTriggers those
	// of a service.
	DefaultTriggers []string
	ServiceTriggers map[string][]string
	// Context are texts that templates use.
	Context map[string]string
	// Problems are settings that have no effect, with the reason.
	Problems []string

	secrets map[string][]byte
	clients *service.Clients
}

// Service is a service with its type.
type Service struct {
	Type string
	service.Service
}

// Subscription sends messages of triggers to recipients by default.
type Subscription struct {
	Triggers []string
	To       []Destination
	Selector labels.Selector
}

// Read reads the settings. A part that is wrong is a problem, and the others count. The
// objects may be nil. The clients are closed with the settings.
func Read(configMap *corev1.ConfigMap, secret *corev1.Secret, clients *service.Clients) *Settings {
	s := &Settings{
		Triggers: map[string][]message.Condition{}, Templates: map[string]string{}, Services: map[string]Service{},
		ServiceTriggers: map[string][]string{}, Context: map[string]string{}, clients: clients,
	}
	s.addBuiltin()
	if secret != nil {
		s.secrets = secret.Data
	}
	if configMap == nil {
		return s
	}
	// In order, so that the problems are always the same text.
	for _, key := range slices.Sorted(maps.Keys(configMap.Data)) {
		if err := s.readKey(key, configMap.Data[key]); err != nil {
			s.Problems = append(s.Problems, fmt.Sprintf("%s: %v", key, err))
		}
	}
	s.checkReferences()
	return s
}

// Active reports whether there is anything to send to.
func (s *Settings) Active() bool { return s != nil && len(s.Services) > 0 }

// readKey reads one key of the ConfigMap.
func (s *Settings) readKey(key, value string) error {
	kind, name, _ := strings.Cut(key, ".")
	switch kind {
	case "trigger":
		var conditions []message.Condition
		if err := yaml.UnmarshalStrict([]byte(value), &conditions); err != nil {
			return err
		}
		s.Triggers[name] = conditions
	case "template":
		if err := yaml.Unmarshal([]byte(value), &map[string]any{}); err != nil {
			return err
		}
		s.Templates[name] = value
	case "service":
		return s.readService(name, value)
	case "subscriptions":
		return s.readSubscriptions(value)
	case "defaultTriggers":
		var triggers []string
		if err := yaml.Unmarshal([]byte(value), &triggers); err != nil {
			return err
		}
		if name == "" {
			s.DefaultTriggers = triggers
		} else {
			s.ServiceTriggers[name] = triggers
		}
	case "context":
		return yaml.Unmarshal([]byte(value), &s.Context)
	case "config":
		return fmt.Errorf("this is the form before Argo CD 2.0: write keys service.*, trigger.* and template.*")
	default:
		return fmt.Errorf("there is no such setting: look for a misspelling, or remove it")
	}
	return nil
}

// readService makes a service. Its key has the type and may have a name.
func (s *Settings) readService(key, value string) error {
	kind, name, named := strings.Cut(key, ".")
	if !named {
		name = kind
	}
	if kind == "" || name == "" || strings.Contains(name, ".") {
		return fmt.Errorf("the key has to be service.TYPE or service.TYPE.NAME")
	}
	options, missing, err := withSecrets(value, s.secrets)
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		s.Problems = append(s.Problems, fmt.Sprintf("service.%s: the Secret %s has no key %s", key, Secret, strings.Join(missing, ", ")))
	}
	made, problems, err := service.New(kind, options, s.clients)
	for _, problem := range problems {
		s.Problems = append(s.Problems, fmt.Sprintf("service.%s: %s", key, problem))
	}
	if err != nil {
		return err
	}
	s.Services[name] = Service{Type: kind, Service: made}
	return nil
}

// readSubscriptions reads the default subscriptions. A recipient is a service and
// whom it reaches, with a colon in between.
func (s *Settings) readSubscriptions(value string) error {
	var given []struct {
		Recipients []string `json:"recipients"`
		Triggers   []string `json:"triggers"`
		Selector   string   `json:"selector"`
	}
	if err := yaml.UnmarshalStrict([]byte(value), &given); err != nil {
		return err
	}
	for i, one := range given {
		selector, err := labels.Parse(one.Selector)
		if err != nil {
			return fmt.Errorf("the selector of subscription %d: %w", i+1, err)
		}
		read := Subscription{Triggers: one.Triggers, Selector: selector}
		for _, recipient := range one.Recipients {
			name, whom, _ := strings.Cut(recipient, ":")
			read.To = append(read.To, Destination{Service: name, Recipient: whom})
		}
		s.Subscriptions = append(s.Subscriptions, read)
	}
	return nil
}

// checkReferences finds names that nothing has.
func (s *Settings) checkReferences() {
	for _, name := range slices.Sorted(maps.Keys(s.Triggers)) {
		for _, condition := range s.Triggers[name] {
			for _, template := range condition.Send {
				if _, known := s.Templates[template]; !known {
					s.Problems = append(s.Problems, fmt.Sprintf("trigger.%s: there is no template %s", name, template))
				}
			}
		}
	}
	for _, subscription := range s.Subscriptions {
		for _, trigger := range subscription.Triggers {
			if _, known := s.Triggers[trigger]; !known {
				s.Problems = append(s.Problems, fmt.Sprintf("subscriptions: there is no trigger %s", trigger))
			}
		}
		for _, to := range subscription.To {
			if _, known := s.Services[to.Service]; !known {
				s.Problems = append(s.Problems, fmt.Sprintf("subscriptions: there is no service %s", to.Service))
			}
		}
	}
}

// reference is a key of the Secret in the options of a service.
var reference = regexp.MustCompile(`\$[\w-]+`)

// withSecrets replaces references to keys of the Secret in the texts of a YAML document.
// It works on the parsed document, so that a value cannot add options. It returns the
// keys that the Secret does not have, which stay as they are.
func withSecrets(text string, secrets map[string][]byte) (replaced []byte, missing []string, err error) {
	var document yamlnode.Node
	if err := yamlnode.Unmarshal([]byte(text), &document); err != nil {
		return nil, nil, fmt.Errorf("it is no YAML: %w", err)
	}
	visitTexts(&document, func(node *yamlnode.Node) {
		node.Value = reference.ReplaceAllStringFunc(node.Value, func(key string) string {
			value, known := secrets[key[1:]]
			if !known {
				missing = append(missing, key[1:])
				return key
			}
			return string(value)
		})
	})
	if len(document.Content) == 0 {
		return nil, missing, nil
	}
	replaced, err = yamlnode.Marshal(&document)
	return replaced, missing, err
}

// visitTexts visits the texts of a document. Aliases are visited where their anchor is.
func visitTexts(node *yamlnode.Node, visit func(*yamlnode.Node)) {
	if node.Kind == yamlnode.ScalarNode && node.Tag == "!!str" {
		visit(node)
	}
	for _, child := range node.Content {
		visitTexts(child, visit)
	}
}
