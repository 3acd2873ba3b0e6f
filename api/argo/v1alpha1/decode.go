package v1alpha1

import (
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"slipway.dev/slipway/api/declare"
	"slipway.dev/slipway/api/refusal"
)

// Ignored is the reason of a part that is accepted and has no effect. Argo CD
// takes such an object and ignores the part, so refusing all of it would stop an
// Application that runs today; ignoring the part silently would hide that a
// setting is not carried out. It belongs in a condition of the object, and the
// rest of the object is acted upon.
const Ignored = refusal.Ignored

// maxListed bounds the refusals and the warnings of one object that are
// returned, and with them the size of its status.
const maxListed = 20

// decoder decodes the parts of an object by their declarations. Its methods add
// the rules between fields.
type decoder struct{ declare.Decoder }

// Decode reads an Application from decoded JSON, such as the content of an
// unstructured object. It returns what could be read, and a refusal of
// everything in spec and operation that we will not do. Parts that Argo CD
// ignores are removed from the result and listed in its Warnings. An error means
// that the object is no Application.
func Decode(object map[string]any) (*Application, []refusal.Refusal, error) {
	application := &Application{}
	if err := header(object, KindApplication, &application.TypeMeta, &application.ObjectMeta); err != nil {
		return nil, nil, err
	}
	d := decoder{declare.Decoder{Foreign: true, Types: types}}
	d.parts(object, &application.Spec, &application.Status, "operation")
	if operation := object["operation"]; operation != nil {
		application.Operation = &Operation{}
		d.Decode(operation, application.Operation, "operation")
	}
	d.specRules(&application.Spec, "spec")
	d.operationRules(application.Operation)
	application.Warnings = refusal.Bounded(d.Warnings, maxListed)
	return application, refusal.Bounded(d.Refused, maxListed), nil
}

// DecodeProject is Decode for an AppProject.
func DecodeProject(object map[string]any) (*AppProject, []refusal.Refusal, error) {
	project := &AppProject{}
	if err := header(object, KindAppProject, &project.TypeMeta, &project.ObjectMeta); err != nil {
		return nil, nil, err
	}
	d := decoder{declare.Decoder{Foreign: true, Types: types}}
	d.parts(object, &project.Spec, &project.Status)
	d.projectRules(&project.Spec)
	project.Warnings = refusal.Bounded(d.Warnings, maxListed)
	return project, refusal.Bounded(d.Refused, maxListed), nil
}

// DecodeSet is Decode for an ApplicationSet. Texts of the template can have
// parameters, so that what they mean is checked when an Application is made of
// them, by Decode. Unknown fields are warnings, as an ApplicationSet has no field
// that restricts a tenant: its Applications pass their project.
func DecodeSet(object map[string]any) (*ApplicationSet, []refusal.Refusal, error) {
	set := &ApplicationSet{}
	if err := header(object, KindApplicationSet, &set.TypeMeta, &set.ObjectMeta); err != nil {
		return nil, nil, err
	}
	d := decoder{declare.Decoder{Foreign: true, Types: types, WarnUnknown: true}}
	d.parts(object, &set.Spec, &set.Status)
	d.setRules(&set.Spec)
	set.Warnings = refusal.Bounded(d.Warnings, maxListed)
	return set, refusal.Bounded(d.Refused, maxListed), nil
}

// parts decodes spec and status of an object, and reports parts that are neither
// these nor others that the kind has.
func (d *decoder) parts(object map[string]any, spec, status any, others ...string) {
	if object["spec"] == nil {
		d.Invalid("spec", "it is missing")
	} else {
		d.Decode(object["spec"], spec, "spec")
	}
	d.Unknown(object, slices.Concat([]string{"spec", "status"}, others, []string{"apiVersion", "kind", "metadata"}), "")
	if object["status"] != nil {
		(&declare.Decoder{Foreign: true, Lenient: true, Types: types}).Decode(object["status"], status, "status")
	}
}

// header decodes the metadata and checks the kind.
func header(object map[string]any, kind string, into *metav1.TypeMeta, metadata *metav1.ObjectMeta) error {
	version, _ := object["apiVersion"].(string)
	given, _ := object["kind"].(string)
	if version != APIVersion || given != kind {
		return fmt.Errorf("it is %s of %s, and not %s of %s", declare.Quoted(given), declare.Quoted(version), kind, APIVersion)
	}
	*into = metav1.TypeMeta{APIVersion: version, Kind: given}
	content, ok := object["metadata"].(map[string]any)
	if !ok {
		return errors.New("it has no metadata: give it a name")
	}
	// The converter panics on values that JSON does not have.
	copied, err := declare.FreeForm(content)
	if err != nil {
		return fmt.Errorf("the metadata cannot be read: %w", err)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(copied.(map[string]any), metadata); err != nil {
		return fmt.Errorf("the metadata cannot be read: %w", err)
	}
	return nil
}

// Unstructured returns the Application as decoded JSON, without empty fields.
func (a *Application) Unstructured() (map[string]any, error) { return encode(a) }

// Unstructured returns the AppProject as decoded JSON.
func (p *AppProject) Unstructured() (map[string]any, error) { return encode(p) }

// Unstructured returns the ApplicationSet as decoded JSON.
func (s *ApplicationSet) Unstructured() (map[string]any, error) { return encode(s) }

// Unstructured returns the status as decoded JSON, for a patch.
func (s *ApplicationStatus) Unstructured() (map[string]any, error) { return encode(s) }

// encode converts an object to the form that clients send. Free-form fields are
// copied, so that the result can be changed.
func encode(object any) (map[string]any, error) {
	return runtime.DefaultUnstructuredConverter.ToUnstructured(object)
}
