package accountcmd

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/cli/exit"
	"slipway.dev/slipway/internal/cli/files"
	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/gitops/render/manifest"
	"slipway.dev/slipway/internal/rights"
)

// accountCanCommand returns the command that decides whether an action is
// allowed. Like diff(1) it has three exit codes, so that a pipeline does
// not take a policy that cannot be read for a no.
func accountCanCommand() *cobra.Command {
	given := &policyFlags{}
	var resource string
	command := &cobra.Command{
		Use:   "can VERB OBJECT",
		Short: "Check whether an action is allowed, and why",
		Long: `Checks a policy in files for a user, without a server: Argo CD's policy.csv, or
manifests with the ConfigMap argocd-rbac-cm, the AppProjects with their roles, and
argocd-cm. Several files count together.

VERB is get, create, update, delete, sync, override, rollback, action/GROUP/KIND/ACTION,
update/GROUP/KIND/NAMESPACE/NAME or delete/GROUP/KIND/NAMESPACE/NAME; logs and exec are
those of an Application. OBJECT is PROJECT/APPLICATION, or with the namespace of an
Application outside of the control namespace PROJECT/NAMESPACE/APPLICATION. Other things
have --resource and are named as in policy.csv.

The exit code is 0 for yes, 1 for no, and 2 when something went wrong. Lines of the
policy that have no effect are listed on standard error.`,
		Example: `  slipway account can sync shop/web --policy policy.csv --subject alice --groups dev,oncall
  slipway account can logs shop/web --policy argocd-rbac-cm.yaml --policy projects.yaml --groups dev
  kubectl get configmaps,appprojects -n argocd -o yaml | slipway account can delete shop/web --policy - --groups dev
  slipway account can create git.example.com/shop --resource repositories --policy policy.csv --subject role:admin`,
		Args: cobra.ExactArgs(2),
	}
	flags := command.Flags()
	flags.StringArrayVar(&given.files, "policy", nil, "policy.csv or manifests to check; - is the input, and it can be repeated")
	flags.StringVar(&given.subject, "subject", "", "user, or a role of the policy")
	flags.StringSliceVar(&given.groups, "groups", nil, "groups of the user, separated by commas")
	flags.StringVar(&given.defaultRole, "default", "", "role that every user has (default policy.default of the ConfigMap)")
	flags.StringVar(&given.matchMode, "match-mode", "", "glob or regex (default policy.matchMode of the ConfigMap, or glob)")
	flags.StringVar(&resource, "resource", rights.Applications, "what OBJECT is: "+strings.Join(rights.Resources(), ", "))
	output := printer.NewOutput(command, printer.FormJSON, printer.FormYAML)
	command.RunE = func(command *cobra.Command, args []string) error {
		decision, err := given.decide(command, resource, args[0], args[1])
		if err == nil {
			err = showDecision(command, output, decision)
		}
		switch {
		case err != nil:
			return exit.Status{Code: exit.Usage, Err: err}
		case !decision.Allowed:
			return exit.Status{Code: exit.Failure}
		}
		return nil
	}
	return command
}

// policyFlags are the policy and the user of slipway account can.
type policyFlags struct {
	files       []string
	subject     string
	groups      []string
	defaultRole string
	matchMode   string
}

// decide reads the policy and decides. Refused lines are notes: the rest of the
// policy counts, as it does in a runtime.
func (f *policyFlags) decide(command *cobra.Command, resource, verb, object string) (rights.Decision, error) {
	request, err := canRequest(resource, verb, object)
	if err != nil {
		return rights.Decision{}, err
	}
	if len(f.files) == 0 {
		return rights.Decision{}, errors.New("--policy is missing: name a policy.csv or manifests")
	}
	if f.subject == "" && len(f.groups) == 0 {
		return rights.Decision{}, errors.New("--subject or --groups is missing: whose rights are checked?")
	}
	policy, refusals, err := f.read(command.InOrStdin())
	if err != nil {
		return rights.Decision{}, err
	}
	for _, r := range refusals {
		printer.Note(command, "No effect: %s", printer.Printable(r.Error()))
	}
	request.Subject, request.Groups = f.subject, f.groups
	return policy.Decide(request), nil
}

// canRequest returns the request for a verb as users write it.
func canRequest(resource, verb, object string) (rights.Request, error) {
	switch verb {
	case rights.Logs:
		resource, verb = rights.Logs, rights.Get
	case rights.Exec:
		resource, verb = rights.Exec, rights.Create
	}
	if !slices.Contains(rights.Resources(), resource) {
		return rights.Request{}, fmt.Errorf("--resource %q is not known: choose one of %s", resource, strings.Join(rights.Resources(), ", "))
	}
	if first, _, _ := strings.Cut(verb, "/"); !slices.Contains(rights.Actions(), first) {
		return rights.Request{}, fmt.Errorf("the verb %q is not known: choose one of %s, logs, exec", verb, strings.Join(rights.Actions(), ", "))
	}
	if slices.Contains([]string{rights.Applications, rights.Logs, rights.Exec}, resource) && !strings.Contains(object, "/") {
		return rights.Request{}, fmt.Errorf("%q names no project: write PROJECT/%s", object, object)
	}
	return rights.Request{Resource: resource, Action: verb, Object: object}, nil
}

// read reads the files. Settings of flags replace those of the ConfigMap, which
// is read before the projects: it has the match mode of their rules.
func (f *policyFlags) read(input io.Reader) (*rights.Policy, []refusal.Refusal, error) {
	found := &policyFiles{config: map[string]string{}}
	for _, path := range f.files {
		if err := found.add(path, input); err != nil {
			return nil, nil, err
		}
	}
	if f.defaultRole != "" {
		found.config["policy.default"] = f.defaultRole
	}
	switch rights.Mode(f.matchMode) {
	case "":
	case rights.Glob, rights.Regex:
		found.config["policy.matchMode"] = f.matchMode
	default:
		return nil, nil, fmt.Errorf("--match-mode %q is neither glob nor regex", f.matchMode)
	}
	policy, refusals := rights.ParseConfig(found.config)
	for _, text := range found.texts {
		part, problems := rights.ParseMode(text[1], text[0], policy.Mode())
		policy, refusals = rights.Merge(policy, part), append(refusals, problems...)
	}
	for _, project := range found.projects {
		part, problems := rights.ParseProject(project.Metadata.Name, project.roles(), policy.Mode())
		policy, refusals = rights.Merge(policy, part), append(refusals, problems...)
	}
	if found.inherit {
		policy = policy.WithInheritance()
	}
	return policy, refusals, nil
}

// policyFiles are the parts of a policy in files.
type policyFiles struct {
	texts    [][2]string // name and content of each policy.csv
	config   map[string]string
	projects []policyObject
	inherit  bool
}

// policyObject is what a policy needs of a ConfigMap or an AppProject.
type policyObject struct {
	Kind     string
	Metadata struct{ Name string }
	Data     map[string]string
	Spec     struct{ Roles []v1alpha1.ProjectRole }
}

// roles returns the roles of an AppProject.
func (o policyObject) roles() []rights.ProjectRole {
	roles := make([]rights.ProjectRole, 0, len(o.Spec.Roles))
	for _, role := range o.Spec.Roles {
		roles = append(roles, rights.ProjectRole{Name: role.Name, Policies: role.Policies, Groups: role.Groups})
	}
	return roles
}

// add reads a file. Manifests are recognised by their content, because both are
// piped as well.
func (p *policyFiles) add(path string, input io.Reader) error {
	text, name, err := []byte(nil), filepath.Base(path), error(nil)
	if path == "-" {
		name = "input"
		text, err = io.ReadAll(io.LimitReader(input, files.MaxBytes+1))
	} else {
		text, err = files.ReadBounded(path, files.MaxBytes)
	}
	if err == nil && len(text) > files.MaxBytes {
		err = fmt.Errorf("the input has more than %d bytes", files.MaxBytes)
	}
	if err != nil {
		return err
	}
	if !manifest.LooksLikeManifest(text) && !strings.HasPrefix(strings.TrimSpace(string(text)), "{") {
		p.texts = append(p.texts, [2]string{name, string(text)})
		return nil
	}
	set := manifest.NewSet(files.MaxBytes)
	if _, err := set.AddYAML(name, text); err != nil {
		return err
	}
	for _, raw := range set.Objects() {
		if err := p.addObject(raw); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// addObject keeps an object that is part of a policy, and passes over all
// others. Kind and name are read first: other kinds have other fields.
func (p *policyFiles) addObject(raw []byte) error {
	var object policyObject
	var header struct {
		Kind     string
		Metadata struct{ Name string }
	}
	if err := json.Unmarshal(raw, &header); err != nil {
		return err
	}
	if header.Kind != v1alpha1.KindAppProject && header.Kind != "ConfigMap" {
		return nil
	}
	if err := json.Unmarshal(raw, &object); err != nil {
		return fmt.Errorf("%s %s: %w", header.Kind, header.Metadata.Name, err)
	}
	switch {
	case object.Kind == v1alpha1.KindAppProject:
		p.projects = append(p.projects, object)
	case object.Metadata.Name == rights.ConfigMap:
		if len(p.config) > 0 {
			return fmt.Errorf("there is a second ConfigMap %s: name the files of one runtime", rights.ConfigMap)
		}
		maps.Copy(p.config, object.Data)
	case object.Metadata.Name == "argocd-cm":
		p.inherit = object.Data["server.rbac.disableApplicationFineGrainedRBACInheritance"] == "false"
	}
	return nil
}

// showDecision prints a decision in the chosen form. The first word is yes or
// no.
func showDecision(command *cobra.Command, output *printer.Output, decision rights.Decision) error {
	if output.Form != printer.FormTable {
		return output.Encode(command.OutOrStdout(), map[string]any{"allowed": decision.Allowed, "rule": decision.Rule, "why": decision.Why})
	}
	_, err := fmt.Fprintf(command.OutOrStdout(), "%s: %s\n", printer.YesNo(decision.Allowed), printer.Printable(decision.Why))
	if err == nil && decision.Rule != "" {
		_, err = fmt.Fprintf(command.OutOrStdout(), "  %s\n", printer.Printable(decision.Rule))
	}
	return err
}
