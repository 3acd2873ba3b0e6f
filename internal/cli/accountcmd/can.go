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
	"slipway.dev/slipway/internal/cli/apiclient"
	"slipway.dev/slipway/internal/cli/exit"
	"slipway.dev/slipway/internal/cli/files"
	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/gitops/render/manifest"
	"slipway.dev/slipway/internal/rights"
	"slipway.dev/slipway/internal/wire/permission"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// accountCanCommand returns the command that decides whether an action is
// allowed. Like diff(1) it has three exit codes, so that a pipeline does
// not take a policy that cannot be read for a no.
func accountCanCommand(choice *apiclient.Choice) *cobra.Command {
	given := &policyFlags{}
	var resource string
	command := &cobra.Command{
		Use:   "can VERB OBJECT",
		Short: "Check whether an action is allowed, and why",
		Long: `Checks whether you have a right on an Application, as the platform and the runtime
decide it. VERB is get, sync, override (with sync: another revision), rollback, action,
logs, delete, or for a Git Source create, update or delete. OBJECT is PROJECT/APPLICATION,
or with the namespace of an Application outside of the control namespace
PROJECT/NAMESPACE/APPLICATION.

With --policy it checks files for a user, without a server: Argo CD's policy.csv, or
manifests with the ConfigMap argocd-rbac-cm, the AppProjects with their roles, and
argocd-cm. Several files count together. VERB can be every action of Argo CD then, such
as exec, action/GROUP/KIND/ACTION or delete/GROUP/KIND/NAMESPACE/NAME, and with --resource
OBJECT is something else, named as in policy.csv. Lines of the policy that have no effect
are listed on standard error.

The exit code is 0 for yes, 1 for no, and 2 when something went wrong.`,
		Example: `  slipway account can sync shop/web
  slipway account can sync shop/web --policy policy.csv --subject alice --groups dev,oncall
  slipway account can logs shop/web --policy argocd-rbac-cm.yaml --policy projects.yaml --groups dev
  kubectl get configmaps,appprojects -n argocd -o yaml | slipway account can delete shop/web --policy - --groups dev
  slipway account can create git.example.com/shop --resource repositories --policy policy.csv --subject role:admin`,
		Args: cobra.ExactArgs(2),
	}
	flags := command.Flags()
	flags.StringArrayVar(&given.files, "policy", nil, "policy.csv or manifests to check instead of the platform; - is the input, and it can be repeated")
	flags.StringVar(&given.subject, "subject", "", "user, or a role of the policy")
	flags.StringSliceVar(&given.groups, "groups", nil, "groups of the user, separated by commas")
	flags.StringVar(&given.defaultRole, "default", "", "role that every user has (default policy.default of the ConfigMap)")
	flags.StringVar(&given.matchMode, "match-mode", "", "glob or regex (default policy.matchMode of the ConfigMap, or glob)")
	flags.StringVar(&resource, "resource", rights.Applications, "what OBJECT is: "+strings.Join(rights.Resources(), ", "))
	flags.StringVar(&choice.Runtime, "runtime", "", "runtime (default "+apiclient.RuntimeVariable+", that of the context, or the only one)")
	_ = command.RegisterFlagCompletionFunc("runtime", choice.CompleteRuntimes) // the flag is there
	output := printer.NewOutput(command, printer.FormJSON, printer.FormYAML)
	command.RunE = func(command *cobra.Command, args []string) error {
		var decision rights.Decision
		var err error
		if len(given.files) > 0 {
			decision, err = given.decide(command, resource, args[0], args[1])
		} else {
			decision, err = checkAccess(command, choice, args[0], args[1])
		}
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

// checkAccess has the platform decide for the current user. It decides as for
// the calls themselves, so that there are the verbs of these calls only.
func checkAccess(command *cobra.Command, choice *apiclient.Choice, verb, object string) (decision rights.Decision, err error) {
	for _, name := range []string{"subject", "groups", "default", "match-mode", "resource"} {
		if command.Flags().Changed(name) {
			return decision, fmt.Errorf("--%s is for a policy in files: name them with --policy", name)
		}
	}
	wanted := &platformv1.CheckAccessRequest{Verb: verb}
	switch parts := strings.Split(object, "/"); {
	case !slices.Contains(permission.CheckedVerbs(), permission.Verb(verb)):
		return decision, fmt.Errorf("the verb %q is none of the platform: choose one of %v, or check files with --policy", verb, permission.CheckedVerbs())
	case len(parts) == 2:
		wanted.Project, wanted.Name = parts[0], parts[1]
	case len(parts) == 3:
		wanted.Project, wanted.Namespace, wanted.Name = parts[0], parts[1], parts[2]
	default:
		return decision, fmt.Errorf("%q is no Application: write PROJECT/APPLICATION or PROJECT/NAMESPACE/APPLICATION", object)
	}
	err = apiclient.WithRuntime(choice, func(command *cobra.Command, client *apiclient.Client, runtime string, _ []string) error {
		wanted.Runtime = runtime
		response, err := client.CheckAccess(command.Context(), wanted)
		decision = rights.Decision{Allowed: response.GetAllowed(), Rule: response.GetRule(), Why: response.GetWhy()}
		return err
	})(command, nil)
	return decision, err
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
