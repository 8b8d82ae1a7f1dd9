/** Saved views: a list in the side bar, each with its count, and the menu that saves the present one. */

import { type FormEvent, useState } from "react";
import { boardAddress, fleetView } from "../lib/fleet";
import { useRoute } from "../lib/route";
import { inert } from "../lib/text";
import { count } from "../lib/time";
import { useAnswer } from "../lib/use";
import { dropView, type SavedView, saveView, useViews } from "../lib/views";
import { Icon } from "./icons";

const KEPT = ["", "insights", "search"]; // the pages that can be saved

export function SavedViews() {
  const views = useViews();
  const { parts } = useRoute();
  return (
    <section className="views" aria-labelledby="saved-views">
      <h2 id="saved-views">Saved views</h2>
      {KEPT.includes(parts[0] ?? "") && <SaveView label="+" about="Save this view" />}
      {!views.length && <p className="soft">Save a filter, and it is here.</p>}
      <ul>
        {views.map((view) => (
          <View key={view.name} view={view} />
        ))}
      </ul>
    </section>
  );
}

function View({ view: { name, page, query } }: { view: SavedView }) {
  const asked = fleetView(new URLSearchParams(query));
  const { data } = useAnswer(page ? null : boardAddress(asked, 0), "seldom");
  return (
    <li>
      <a href={`#/${page}?${query}`}>
        <Icon name={page === "search" ? "search" : page === "insights" ? "insights" : "filter"} size={13} />
        <span className="cut">{inert(name)}</span>
        <span className="soft num">{data ? count(data.matching) : ""}</span>
      </a>
      <button className="quiet" aria-label={`Forget the view ${inert(name)}`} onClick={() => dropView(name)}>
        <Icon name="close" size={10} />
      </button>
    </li>
  );
}

/** Saves the page with its filters, order and groups under a name. */
export function SaveView({ label = "Save view", about }: { label?: string; about?: string }) {
  const { parts, query } = useRoute();
  const [open, setOpen] = useState(false);
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const name = String(new FormData(event.currentTarget).get("name") ?? "").trim();
    if (!name) return;
    saveView({ name, page: parts[0] ?? "", query: query.toString() });
    setOpen(false);
  };
  return (
    <details className="menu save-view" open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary aria-label={about} title={about}>
        {label}
      </summary>
      {open && (
        <form className="sheet" onSubmit={submit}>
          <label>
            Name <input name="name" maxLength={40} required />
          </label>
          <button className="first">Save</button>
        </form>
      )}
    </details>
  );
}
