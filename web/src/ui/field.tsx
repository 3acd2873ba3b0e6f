import type { ReactNode } from "react";
import { Button } from "react-aria-components/Button";
import { Checkbox as AriaCheckbox } from "react-aria-components/Checkbox";
import { FieldError } from "react-aria-components/FieldError";
import { Input } from "react-aria-components/Input";
import { Label } from "react-aria-components/Label";
import { ListBox, ListBoxItem } from "react-aria-components/ListBox";
import { Popover } from "react-aria-components/Popover";
import { Radio, RadioGroup } from "react-aria-components/RadioGroup";
import { SearchField as AriaSearchField } from "react-aria-components/SearchField";
import { Select as AriaSelect, SelectValue } from "react-aria-components/Select";
import { Text } from "react-aria-components/Text";
import { TextArea } from "react-aria-components/TextArea";
import { TextField as AriaTextField } from "react-aria-components/TextField";
import { CheckIcon, ChevronIcon } from "./icons";

export interface TextFieldProps {
  label: string;
  value: string;
  onChange: (value: string) => void;
  description?: ReactNode;
  /** What is wrong with the value. */
  error?: string | undefined;
  type?: "text" | "email" | "password" | "url";
  /** More than one line, in the type of code. */
  rows?: number;
  placeholder?: string;
  autoComplete?: string;
  isRequired?: boolean;
  isDisabled?: boolean;
  autoFocus?: boolean;
}

export function TextField({ label, description, error, rows, placeholder, ...rest }: TextFieldProps) {
  return (
    <AriaTextField className="field" isInvalid={Boolean(error)} validationBehavior="aria" {...rest}>
      <Label>{label}</Label>
      {rows ? (
        <TextArea className="input" rows={rows} placeholder={placeholder} spellCheck={false} />
      ) : (
        <Input className="input" placeholder={placeholder} />
      )}
      {description && (
        <Text slot="description" className="description">
          {description}
        </Text>
      )}
      <FieldError className="error">{error}</FieldError>
    </AriaTextField>
  );
}

export interface SearchFieldProps {
  label: string;
  value: string;
  onChange: (value: string) => void;
  placeholder?: string;
}

export function SearchField({ label, value, onChange, placeholder }: SearchFieldProps) {
  return (
    <AriaSearchField className="field" aria-label={label} value={value} onChange={onChange}>
      <Input className="input" placeholder={placeholder ?? label} />
    </AriaSearchField>
  );
}

export interface SelectOption {
  value: string;
  label: string;
}

export interface SelectProps {
  label: string;
  /** The label is for screen readers alone. */
  hideLabel?: boolean;
  value: string;
  onChange: (value: string) => void;
  options: SelectOption[];
  isDisabled?: boolean;
}

export function Select({ label, hideLabel, value, onChange, options, isDisabled }: SelectProps) {
  return (
    <AriaSelect
      className="field"
      value={value}
      onChange={(key) => onChange(String(key ?? ""))}
      isDisabled={Boolean(isDisabled)}
      {...(hideLabel ? { "aria-label": label } : {})}
    >
      {!hideLabel && <Label>{label}</Label>}
      <Button className="input picker">
        <SelectValue />
        <ChevronIcon />
      </Button>
      <Popover className="popover">
        <ListBox items={options}>
          {(option) => (
            <ListBoxItem id={option.value} className="option" textValue={option.label}>
              {option.label}
            </ListBoxItem>
          )}
        </ListBox>
      </Popover>
    </AriaSelect>
  );
}

export interface CheckboxProps {
  children: ReactNode;
  isSelected: boolean;
  onChange: (selected: boolean) => void;
  isDisabled?: boolean;
}

export function Checkbox({ children, ...rest }: CheckboxProps) {
  return (
    <AriaCheckbox className="checkbox" {...rest}>
      {({ isSelected }) => (
        <>
          <span className="box">{isSelected && <CheckIcon />}</span>
          <span>{children}</span>
        </>
      )}
    </AriaCheckbox>
  );
}

export interface RadioCardsProps {
  label: string;
  value: string;
  onChange: (value: string) => void;
  options: readonly { value: string; title: string; description: string }[];
}

/** RadioCards is a choice whose options need a description. */
export function RadioCards({ label, value, onChange, options }: RadioCardsProps) {
  return (
    <RadioGroup className="field" value={value} onChange={onChange}>
      <Label className="label">{label}</Label>
      <div className="cards">
        {options.map((option) => (
          <Radio key={option.value} value={option.value} className="card-option">
            <strong>{option.title}</strong>
            <div className="muted">{option.description}</div>
          </Radio>
        ))}
      </div>
    </RadioGroup>
  );
}
