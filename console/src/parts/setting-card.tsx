/** A card of the settings: a title, what it is about, and an action. */

import { type FormEvent, type ReactNode, useState } from "react";
import { explained } from "../lib/api";
import { inert } from "../lib/text";

interface Props {
  readonly id: string;
  readonly title: string;
  readonly about: string;
  readonly action?: ReactNode;
  readonly children: ReactNode;
}

export function SettingCard({ id, title, about, action, children }: Props) {
  return (
    <section className="chart-card setting" aria-labelledby={`setting-${id}`}>
      <header>
        <h2 id={`setting-${id}`}>{title}</h2>
        <span className="soft about grow">{about}</span>
        {action}
      </header>
      {children}
    </section>
  );
}

/** A command to type, with what it is for. */
export function Command({ command, children }: { command: string; children: ReactNode }) {
  return (
    <>
      <p className="soft">{children}</p>
      <pre className="code">{command}</pre>
    </>
  );
}

interface FormProps {
  readonly label: string;
  readonly send: string;
  readonly onSend: (fields: FormData) => Promise<void>;
  readonly onClose: () => void;
  readonly children: ReactNode;
}

/** A small form in a card; what went wrong stands below it, and nothing that was typed is lost. */
export function SettingForm({ label, send, onSend, onClose, children }: FormProps) {
  const [busy, setBusy] = useState(false);
  const [trouble, setTrouble] = useState("");
  const submit = async (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    setBusy(true);
    setTrouble("");
    try {
      await onSend(new FormData(event.currentTarget));
    } catch (error) {
      setTrouble(explained(error));
    } finally {
      setBusy(false);
    }
  };
  return (
    <form className="setting-form" aria-label={label} onSubmit={(event) => void submit(event)}>
      {children}
      <span className="row">
        <button className="first" disabled={busy}>
          {send}
        </button>
        <button type="button" onClick={onClose}>
          Cancel
        </button>
      </span>
      {trouble && (
        <p className="failed" role="alert">
          {inert(trouble)}
        </p>
      )}
    </form>
  );
}

export function Field({ name, label, children }: { name: string; label: string; children: ReactNode }) {
  return (
    <label htmlFor={`field-${name}`}>
      <span className="soft">{label}</span>
      {children}
    </label>
  );
}
