/* The server's answers to what is asked beside a run of the Lab: a plan, a file, a result that was brought. */
sd.parts.labreply = (element, { props, watch }) => {
  watch("value", () => { if (props.value) sd.emit("lab-reply", JSON.parse(props.value)); });
};
