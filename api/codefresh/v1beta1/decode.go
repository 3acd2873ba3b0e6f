package v1beta1

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/api/declare"
	"slipway.dev/slipway/api/refusal"
)

// maxListed bounds the refusals of one object.
const maxListed = 20

// DecodeProduct reads a Product from decoded JSON. It returns what could be read, and a
// refusal of everything in its spec that we will not do. An error means that the object
// is no Product. The other decoders do the same for their kinds.
func DecodeProduct(object map[string]any) (*Product, []refusal.Refusal, error) {
	made := &Product{}
	decoder, err := decode(object, KindProduct, &made.TypeMeta, &made.ObjectMeta, &made.Spec)
	if err == nil {
		made.Automatic = startsAutomatically(object, &decoder)
	}
	return made, refusal.Bounded(decoder.Refused, maxListed), err
}

// startsAutomatically reads AnnotationStart. A misspelt value is refused, because nothing
// would begin without a reason.
func startsAutomatically(object map[string]any, decoder *declare.Decoder) bool {
	metadata, _ := object["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	given, exists := annotations[AnnotationStart].(string)
	if !exists || given == StartManual {
		return false
	}
	if given != StartAutomatic {
		decoder.Invalid("metadata.annotations."+AnnotationStart, "it is %s: write %s or %s", declare.Quoted(given), StartAutomatic, StartManual)
	}
	return true
}

// DecodeTemplate reads a PromotionTemplate.
func DecodeTemplate(object map[string]any) (*PromotionTemplate, []refusal.Refusal, error) {
	made := &PromotionTemplate{}
	decoder, err := decode(object, KindPromotionTemplate, &made.TypeMeta, &made.ObjectMeta, &made.Spec)
	if err == nil {
		if _, invalid := metav1.LabelSelectorAsSelector(made.Spec.ApplicationSourceSelector.Selector()); invalid != nil {
			decoder.Invalid("spec.applicationSourceSelector", "%v", invalid)
		}
	}
	return made, refusal.Bounded(decoder.Refused, maxListed), err
}

// DecodePolicy reads a PromotionPolicy.
func DecodePolicy(object map[string]any) (*PromotionPolicy, []refusal.Refusal, error) {
	made := &PromotionPolicy{}
	decoder, err := decode(object, KindPromotionPolicy, &made.TypeMeta, &made.ObjectMeta, &made.Spec)
	return made, refusal.Bounded(decoder.Refused, maxListed), err
}

// DecodeFlow reads a PromotionFlow, whose environments have to be in an order.
func DecodeFlow(object map[string]any) (*PromotionFlow, []refusal.Refusal, error) {
	made := &PromotionFlow{}
	decoder, err := decode(object, KindPromotionFlow, &made.TypeMeta, &made.ObjectMeta, &made.Spec)
	// The order of steps that are partly refused would give misleading messages.
	if err == nil && len(decoder.Refused) == 0 {
		checkOrder(&decoder, &made.Spec)
	}
	return made, refusal.Bounded(decoder.Refused, maxListed), err
}

// checkOrder refuses environments that are there twice, that depend on others than those
// of the flow, and that depend on each other.
func checkOrder(decoder *declare.Decoder, spec *PromotionFlowSpec) {
	all := []string{spec.TriggerEnvironment}
	for i, step := range spec.Steps {
		if slices.Contains(all, step.Environment) {
			decoder.Refuse(fmt.Sprintf("spec.steps[%d].environment", i), refusal.Duplicate, "the environment %s is in the flow twice", declare.Quoted(step.Environment))
		}
		all = append(all, step.Environment)
	}
	for i, step := range spec.Steps {
		for n, name := range step.DependsOn {
			if !slices.Contains(all, name) {
				decoder.Refuse(fmt.Sprintf("spec.steps[%d].dependsOn[%d]", i, n), refusal.NotFound, "the flow has no environment %s", declare.Quoted(name))
			}
		}
	}
	if len(decoder.Refused) > 0 {
		return
	}
	// Each pass finds the steps whose dependencies were found before.
	reached := []string{spec.TriggerEnvironment}
	for range spec.Steps {
		for _, step := range spec.Steps {
			if !slices.Contains(reached, step.Environment) && !slices.ContainsFunc(step.DependsOn, func(name string) bool { return !slices.Contains(reached, name) }) {
				reached = append(reached, step.Environment)
			}
		}
	}
	for i, step := range spec.Steps {
		if !slices.Contains(reached, step.Environment) {
			decoder.Refuse(fmt.Sprintf("spec.steps[%d].dependsOn", i), refusal.Conflict, "the environment %s depends on itself, through others", declare.Quoted(step.Environment))
		}
	}
}

// decode reads the metadata and the spec of an object.
func decode(object map[string]any, kind string, header *metav1.TypeMeta, metadata *metav1.ObjectMeta, spec any) (declare.Decoder, error) {
	decoder := declare.Decoder{}
	version, _ := object["apiVersion"].(string)
	given, _ := object["kind"].(string)
	if version != APIVersion || given != kind {
		return decoder, fmt.Errorf("it is %s of %s, and not %s of %s", declare.Quoted(given), declare.Quoted(version), kind, APIVersion)
	}
	*header = metav1.TypeMeta{APIVersion: version, Kind: given}
	// The names and the UID, for Events, are read of the metadata.
	fields, _ := object["metadata"].(map[string]any)
	metadata.Name, _ = fields["name"].(string)
	metadata.Namespace, _ = fields["namespace"].(string)
	uid, _ := fields["uid"].(string)
	metadata.UID = types.UID(uid)
	if object["spec"] == nil {
		decoder.Invalid("spec", "it is missing")
	} else {
		decoder.Decode(object["spec"], spec, "spec")
	}
	// A status is allowed and not read: Codefresh's definition of policies has one.
	decoder.Unknown(object, []string{"apiVersion", "kind", "metadata", "spec", "status"}, "")
	return decoder, nil
}
