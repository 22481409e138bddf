// The changes between two configurations.
import type { JSX } from "preact";
import type { Change } from "./yang";

const SIGNS = { create: ["+", "added"], delete: ["−", "removed"], replace: ["~", "changed"] } as const;
/** Maximum number of rows. */
const MOST = 500;

export const Changes = ({ list }: { list: Change[] }): JSX.Element => (
  <>
    <ul class="changes">
      {list.slice(0, MOST).map((change) => {
        const [sign, words] = SIGNS[change.operation];
        return (
          <li class={change.operation}>
            <span class="sign" title={words}>
              {sign}
              <span class="unseen"> {words}</span>
            </span>
            <span>
              <code>{change.path}</code>
              {(change.old !== undefined || change.new !== undefined) && (
                <span class="values">
                  {change.old !== undefined && <del>{change.old}</del>}
                  {change.new !== undefined && <ins>{change.new}</ins>}
                </span>
              )}
            </span>
          </li>
        );
      })}
    </ul>
    {list.length > MOST && <p class="none">and {list.length - MOST} more</p>}
  </>
);
